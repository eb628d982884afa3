# SPDX-License-Identifier: Apache-2.0
"""Who must reach whom, as the plan says (OKEP-5193, "Network Segmentation"). Pure.

Two workloads reach each other on the networks that both are attached to, as far as neither's interface is locked.
Everything else must stay silent, whatever the addresses are.

A network without addresses is tested with the link-local ones that the kernel derives from MACs. Those have no route,
so such a packet is sent out of an interface: on that network, or else on another one without addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..addressing import family, link_local_address, plain

LOCKED = "infrastructure-locked"


@dataclass(frozen=True, slots=True)
class Pair:
    """One address of a target, seen from a source. `network` is the one that the address belongs to.

    `interface` is the source's for a link-local address, and empty for all others, which its routes lead to.
    """

    source: str
    target: str
    network: str
    family: int
    address: str
    reach: bool
    reason: str
    interface: str = ""


def addresses_of(interface: dict) -> list[str]:
    """Return the addresses that an interface answers on."""
    return [plain(address) for address in interface["addresses"]] or [link_local_address(interface["mac"])]


def expected(plan: dict, node: str | None = None) -> list[Pair]:
    """Return every (source, address of another workload), with what must come of it; `node`: only its sources."""
    # Virtual machines are left out: nothing of Heddle's runs in them that would ask or answer.
    asked = {name: workload for name, workload in plan["workloads"].items() if workload["kind"] == "netns"}
    plan = {**plan, "workloads": asked}
    sources = [name for name, workload in plan["workloads"].items() if node in (None, workload["node"])]
    return [
        pair
        for source in sources
        for target in plan["workloads"]
        if target != source
        for interface in plan["workloads"][target]["interfaces"]
        for pair in _pairs(plan, source, target, interface)
    ]


def _pairs(plan: dict, source: str, target: str, interface: dict) -> list[Pair]:
    way_out = ""
    if not interface["addresses"]:
        bare = [own for own in plan["workloads"][source]["interfaces"] if not own["addresses"]]
        same = [own for own in bare if own["network"] == interface["network"]]
        if not bare:
            return []
        way_out = (same or bare)[0]["name"]
    verdict = _judged(plan, source, target, interface)
    return [
        Pair(source, target, interface["network"], family(address), address, *verdict, way_out)
        for address in addresses_of(interface)
    ]


def _judged(plan: dict, source: str, target: str, interface: dict) -> tuple[bool, str]:
    network = interface["network"]
    mine = next((own for own in plan["workloads"][source]["interfaces"] if own["network"] == network), None)
    if mine is None:
        return False, f"{source} is not attached to {network}"
    for name, end in ((source, mine), (target, interface)):
        if end["role"] == LOCKED:
            return False, f"{network} is locked for {name}, whose primary network is another one"
    return True, f"both are attached to {network}"
