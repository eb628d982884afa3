# SPDX-License-Identifier: Apache-2.0
"""What the reachability module does on a host."""

from __future__ import annotations

from ..apply import kernel
from ..document import pack
from ..runner import Failure, known_node, load_plan
from .control import Responder
from .crossing import TO_SERVICE, crossings
from .expectation import expected
from .listening import Place, listeners, outside_listeners, places
from .prober import probe
from .service_probe import ServiceProbe

# A call that nobody answered while everybody else was asked gets so many seconds more.
_SERVICE_SECONDS = 5.0


def reach(module) -> dict:
    """Return the module's result for its `state`."""
    params, write = module.params, not module.check_mode
    try:
        if params["state"] == "stopped":
            changed, heard = Responder().stop(write=write)
            return {"changed": changed, "heard": heard}
        if params["node"] in params["outside"]:
            return _outside(module, write=write)
        if kernel.PYROUTE2_IMPORT_ERROR is not None:
            raise Failure("pyroute2 is missing on this host; run playbooks/install.yml")
        plan = load_plan(module)
        node = known_node(plan, params["node"])
        if params["state"] == "probed":
            return {"changed": False, **_probed(plan, node, params)}
        wanted = listeners(plan, node)
        changed, problems = Responder().start(wanted, params["port"], params["lifetime"], write=write)
        return {"changed": changed, "problems": problems, "document": pack(plan)}
    except OSError as error:
        raise Failure(f"{error.strerror or error}; this needs root") from error


def _outside(module, *, write: bool) -> dict:
    """A host of the provider network needs nothing of Heddle, and no plan to answer."""
    params, name = module.params, module.params["node"]
    if params["state"] == "responding":
        wanted = outside_listeners(name, params["outside"][name])
        changed, problems = Responder().start(wanted, params["port"], params["lifetime"], write=write)
        return {"changed": changed, "problems": problems}
    plan = load_plan(module)
    frames = crossings(plan, params["outside"], name)
    seen, problems = probe(frames, {name: Place()}, params["port"], params["timeout"], params["rate"])
    return {"changed": False, "seen": seen, "problems": problems, "digest": plan["digest"]}


def _probed(plan: dict, node: str, params: dict) -> dict:
    sources = places(plan, node)
    found = [*expected(plan, node, params["targets"]), *crossings(plan, params["outside"], node)]
    # Workloads of other kinds than network namespaces send nothing for us.
    pairs = [pair for pair in found if pair.source in sources]
    services = [pair for pair in pairs if getattr(pair, "kind", "") == TO_SERVICE]
    calls = ServiceProbe(services, sources)
    others = [pair for pair in pairs if getattr(pair, "kind", "") != TO_SERVICE]
    seen, problems = probe(others, sources, params["port"], params["timeout"], params["rate"])
    seen += calls.collect(_SERVICE_SECONDS)
    problems = sorted({*problems, *calls.problems})
    return {"seen": seen, "problems": problems, "digest": plan["digest"], "document": pack(plan)}
