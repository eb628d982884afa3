# SPDX-License-Identifier: Apache-2.0
"""Implementation of the reachability module on a host."""

from __future__ import annotations

from ..agent.module_runner import UserError, known_node, load_plan
from ..common.serialization import pack, unpack
from ..netlink import kernel
from .listening import Place, external_listeners, listeners, places
from .prober import Expectations, probe, probe_again
from .processes import Responder
from .selection import Selection


def reach(module) -> dict:
    """Return the module's result for its `state`."""
    params, write = module.params, not module.check_mode
    try:
        if params["state"] == "stopped":
            changed, received = Responder().stop(write=write)
            return {"changed": changed, "received": pack(received)}
        external = params["node"] in params["external"]
        if not external and kernel.PYROUTE2_IMPORT_ERROR is not None:
            raise UserError("pyroute2 is missing on this host; run playbooks/install.yml")
        if params["state"] == "responding":
            return _responding(module, write=write, external=external)
        plan = load_plan(module)
        found = (
            {name: Place() for name in params["external"]}
            if external
            else places(plan, known_node(plan, params["node"]))
        )
        return {"changed": False, **_probed(plan, found, params), **({} if external else {"document": pack(plan)})}
    except OSError as error:
        raise UserError(f"{error.strerror or error}; this needs root") from error


def _responding(module, *, write: bool, external: bool) -> dict:
    """Start the responder. An external host needs nothing of Heddle installed, and no plan."""
    params, name = module.params, module.params["node"]
    if external:
        wanted, more = external_listeners(name, params["external"][name]), {}
    else:
        plan = load_plan(module)
        wanted, more = listeners(plan, known_node(plan, name)), {"document": pack(plan)}
    changed, problems = Responder().start(wanted, params["port"], params["lifetime"], write=write)
    return {"changed": changed, "problems": problems, **more}


def _probed(plan: dict, found: dict[str, Place], params: dict) -> dict:
    selection = Selection(params["pairs"], params["seed"])
    asked = Expectations.of(plan, params["node"], params["external"], selection)
    if params["state"] == "probed":
        record, problems = probe(asked, found, params["port"], params["timeout"])
    else:
        record, problems = probe_again(asked, unpack(params["again"]), found, params["port"], params["timeout"])
    unanswered = asked.unanswered(record)
    return {"record": pack(record), "unanswered": unanswered, "problems": problems, "digest": plan["digest"]}
