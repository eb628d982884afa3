# SPDX-License-Identifier: Apache-2.0
"""Implementation of the reachability module on a host."""

from __future__ import annotations

from dataclasses import dataclass

from ...agent.context import NodeContext
from ...agent.module_runner import UserError, known_node, load_plan
from ...common.serialization import pack, unpack
from ...netlink import kernel
from ..expectations.selection import Selection
from .listening import Place, external_listeners, listeners, places
from .prober import Expectations, probe, probe_again
from .processes import Responder


@dataclass(frozen=True)
class Request:
    """The options of the module reachability: `port` is the responders', `lifetime` and `timeout` are seconds.

    `external` has the addresses of hosts of the provider network by name, `again` the packed questions of `confirmed`.
    """

    state: str
    port: int
    lifetime: int
    timeout: int
    external: dict[str, list[str]]
    pairs: str
    seed: str
    again: str | None


def reach(context: NodeContext, request: Request) -> dict:
    """Return the module's result for its `state`; UserError when the node is unknown or a right is missing."""
    try:
        if request.state == "stopped":
            changed, received, problems = Responder().stop(write=context.write)
            return {"changed": changed, "received": pack(received), "problems": problems}
        external = context.node in request.external
        if not external and kernel.PYROUTE2_IMPORT_ERROR is not None:
            raise UserError("pyroute2 is missing on this host; run heddle.ovn.install")
        if request.state == "started":
            return _responding(context, request)
        plan = load_plan(context)
        found = (
            {name: Place() for name in request.external} if external else places(plan, known_node(plan, context.node))
        )
        return {"changed": False, **_probed(plan, context.node, found, request)}
    except OSError as error:
        raise UserError(f"{error.strerror or error}; this needs root") from error


def _responding(context: NodeContext, request: Request) -> dict:
    """Start the responder. An external host needs nothing of Heddle installed, and no plan."""
    if context.node in request.external:
        wanted, more = external_listeners(context.node, request.external[context.node]), {}
    else:
        plan = load_plan(context)
        wanted = listeners(plan, known_node(plan, context.node))
        more = {"document": pack(plan), "digest": plan["digest"]}
    changed, problems = Responder().start(wanted, request.port, request.lifetime, write=context.write)
    return {"changed": changed, "problems": problems, **more}


def _probed(plan: dict, node: str, found: dict[str, Place], request: Request) -> dict:
    asked = Expectations.of(plan, node, request.external, Selection(request.pairs, request.seed))
    if request.state == "probed":
        record, problems = probe(asked, found, request.port, request.timeout)
    else:
        record, problems = probe_again(asked, unpack(request.again), found, request.port, request.timeout)
    unanswered = asked.unanswered(record)
    return {"record": pack(record), "unanswered": unanswered, "problems": problems}
