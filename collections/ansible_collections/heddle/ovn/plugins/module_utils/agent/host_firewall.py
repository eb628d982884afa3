# SPDX-License-Identifier: Apache-2.0
"""The table of the gateways on this host; without the health prober's rule while its cgroup does not exist."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..common.change import Outcome
from ..common.errors import FirewallError
from ..common.processes import subprocesses
from ..nftables.reconcile import reconcile_firewall
from ..render.common.provider import provider_of
from ..render.host.egress_service_rules import CHAIN as EGRESS_SERVICES
from ..render.host.firewall import render_firewall
from ..types.nftables_ruleset import Firewall
from .health.health_prober_cgroup import CGROUPS, cgroup_number
from .nic_forwarding import nic_forwarding


def apply_firewall(
    plan: dict,
    node: str,
    *,
    write: bool,
    run: subprocesses.Run = subprocesses.run,
    cgroups: Path = CGROUPS,
    before: dict | None = None,
) -> Outcome:
    """Replace the table with that of the plan.

    What `before`, a former plan, translates for EgressServices stays as well.

    nftables rejects a table that names a cgroup which does not exist. Then it is loaded without the rule that lets the
    prober through: isolation does not wait for the prober, and the outcome has a note. `heddle-host` loads it again
    when the cgroup is made.
    """
    provider = provider_of(plan["nodes"][node])
    prober = provider.prober if provider else ""
    present = bool(prober) and cgroup_number(prober, cgroups) is not None
    routing = nic_forwarding(plan, node).routing
    try:
        wanted = with_earlier_translations(
            render_firewall(plan, node, with_prober=present, routing=routing), before, node
        )
        outcome = reconcile_firewall(wanted, write=write, run=run)
    except FirewallError:
        # It may have been removed between the two.
        if not present or cgroup_number(prober, cgroups) is not None:
            raise
        present = False
        wanted = with_earlier_translations(
            render_firewall(plan, node, with_prober=False, routing=routing), before, node
        )
        outcome = reconcile_firewall(wanted, write=write, run=run)
    return outcome + Outcome(notes=() if present or not prober else (_missing(prober),))


def with_earlier_translations(firewall: Firewall, before: dict | None, node: str) -> Firewall:
    """Return the table with the translations of a former plan for workloads that it has none for."""
    if before is None or node not in before["nodes"]:
        return firewall
    earlier = {one.name: one for one in render_firewall(before, node).maps if one.name.startswith(EGRESS_SERVICES)}
    maps = []
    for one in firewall.maps:
        known = {element.partition(" : ")[0] for element in one.elements}
        more = (text for text in earlier.get(one.name, one).elements if text.partition(" : ")[0] not in known)
        maps.append(replace(one, elements=tuple(sorted({*one.elements, *more}))))
    return replace(firewall, maps=tuple(maps))


def _missing(prober: str) -> str:
    return (
        f"the cgroup {prober} of the health prober does not exist, so it cannot reach workloads with a primary network "
        "of their own; start the prober, or correct heddle_prober in the inventory and run heddle.ovn.site"
    )
