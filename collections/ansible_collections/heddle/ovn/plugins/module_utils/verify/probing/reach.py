# SPDX-License-Identifier: Apache-2.0
"""Implementation of the reachability module on a host."""

from __future__ import annotations

from dataclasses import dataclass

from ...agent.context import NodeContext
from ...agent.module_runner import Request, UserError, known_node, load_plan, node_context, options
from ...common.serialization import pack, unpack
from ...netlink import kernel
from ..expectations.selection import Selection
from .listening import Place, external_listeners, listeners, places
from .prober import Expectations, probe, probe_again
from .processes import Responder


@dataclass(frozen=True)
class Wanted:
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


def reachability_result(request: Request) -> dict:
    """Return the result of the module `reachability`; UserError when the node is unknown or a right is missing."""
    return _reach(node_context(request), options(request, Wanted))


def _reach(context: NodeContext, wanted: Wanted) -> dict:
    try:
        if wanted.state == "stopped":
            changed, received, problems = Responder().stop(write=context.write)
            return {"changed": changed, "received": pack(received), "problems": problems}
        external = context.node in wanted.external
        if not external and kernel.PYROUTE2_IMPORT_ERROR is not None:
            raise UserError("pyroute2 is missing on this host; run heddle.ovn.install")
        if wanted.state == "started":
            return _responding(context, wanted)
        plan = load_plan(context)
        found = (
            {name: Place() for name in wanted.external} if external else places(plan, known_node(plan, context.node))
        )
        return {"changed": False, **_probed(plan, context.node, found, wanted)}
    except OSError as error:
        raise UserError(f"{error.strerror or error}; this needs root") from error


def _responding(context: NodeContext, wanted: Wanted) -> dict:
    """Start the responder. An external host needs nothing of Heddle installed, and no plan."""
    if context.node in wanted.external:
        found, more = external_listeners(context.node, wanted.external[context.node]), {}
    else:
        plan = load_plan(context)
        found = listeners(plan, known_node(plan, context.node))
        more = {"document": pack(plan), "digest": plan["digest"]}
    changed, problems = Responder().start(found, wanted.port, wanted.lifetime, write=context.write)
    return {"changed": changed, "problems": problems, **more}


def _probed(plan: dict, node: str, found: dict[str, Place], wanted: Wanted) -> dict:
    asked = Expectations.of(plan, node, wanted.external, Selection(wanted.pairs, wanted.seed))
    if wanted.state == "probed":
        record, problems = probe(asked, found, wanted.port, wanted.timeout)
    else:
        record, problems = probe_again(asked, unpack(wanted.again), found, wanted.port, wanted.timeout)
    unanswered = asked.unanswered(record)
    return {"record": pack(record), "unanswered": unanswered, "problems": problems}
