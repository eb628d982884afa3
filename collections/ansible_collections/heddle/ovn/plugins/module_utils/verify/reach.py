# SPDX-License-Identifier: Apache-2.0
"""What the reachability module does on a host."""

from __future__ import annotations

from ..apply import kernel
from ..document import pack
from ..runner import Failure, known_node, load_plan
from .control import Responder
from .expectation import expected
from .listening import listeners, local_workloads
from .prober import probe


def reach(module) -> dict:
    """Return the module's result for its `state`."""
    if kernel.PYROUTE2_IMPORT_ERROR is not None:
        raise Failure("pyroute2 is missing on this host; run playbooks/install.yml")
    params, write = module.params, not module.check_mode
    try:
        if params["state"] == "stopped":
            changed, heard = Responder().stop(write=write)
            return {"changed": changed, "heard": heard}
        plan = load_plan(module)
        node = known_node(plan, params["node"])
        if params["state"] == "probed":
            return {"changed": False, **_probed(plan, node, params)}
        wanted = listeners(plan, node)
        changed, problems = Responder().start(wanted, params["port"], params["lifetime"], write=write)
        return {"changed": changed, "problems": problems}
    except OSError as error:
        raise Failure(f"{error.strerror or error}; this needs root") from error


def _probed(plan: dict, node: str, params: dict) -> dict:
    namespaces = local_workloads(plan, node)
    pairs = [pair for pair in expected(plan, node) if pair.source in namespaces]
    seen, problems = probe(pairs, namespaces, params["port"], params["timeout"])
    return {"seen": seen, "problems": problems, "digest": plan["digest"], "document": pack(plan)}
