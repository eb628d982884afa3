# SPDX-License-Identifier: Apache-2.0
"""Who must reach whom, as the plan says (OKEP-5193, "Network Segmentation"). Pure.

Two workloads reach each other on the networks that both are attached to, as far as neither's interface is locked.
Everything else must stay silent, whatever the addresses are.

A network without addresses is tested with the link-local ones that the kernel derives from MACs. Those have no route,
so such a packet is sent out of an interface: on that network, or else on another one without addresses.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ..addressing import family, link_local_address, plain

LOCKED = "infrastructure-locked"
# Up to so many workloads all pairs are asked; of more, each asks so many of each network and of all.
FEW, SAMPLE = 100, 10


@dataclass(frozen=True, slots=True)
class Pair:
    """One address of a target, seen from a source. `network` is the one that the address belongs to.

    `interface` is the source's for a link-local address, and empty for all others, which its routes lead to. `mtu` is
    the size of a large packet that must arrive as well, 0 for none.
    """

    source: str
    target: str
    network: str
    family: int
    address: str
    reach: bool
    reason: str
    interface: str = ""
    mtu: int = 0


def addresses_of(interface: dict) -> list[str]:
    """Return the addresses that an interface answers on."""
    return [plain(address) for address in interface["addresses"]] or [link_local_address(interface["mac"])]


def expected(plan: dict, node: str | None = None, most: int | None = None) -> list[Pair]:
    """Return (source, address of another workload) pairs, with what must come of them; `node`: only its sources.

    Pairs of all workloads up to `FEW`; of more, each asks `most` (`SAMPLE`) others that share a network with it, and as
    many of all, those that follow it in an order without pattern, which is the same on all hosts.
    """
    # Virtual machines are left out: nothing of Heddle's runs in them that would ask or answer.
    asked = {name: workload for name, workload in plan["workloads"].items() if workload["kind"] == "netns"}
    plan = {**plan, "workloads": asked}
    sources = [name for name, workload in plan["workloads"].items() if node in (None, workload["node"])]
    targets = _Targets(plan, most)
    return [
        pair
        for source in sources
        for target in targets.of(source)
        for interface in plan["workloads"][target]["interfaces"]
        for pair in _pairs(plan, source, target, interface)
    ]


class _Targets:
    """Whom each workload asks."""

    def __init__(self, plan: dict, most: int | None) -> None:
        self.names = list(plan["workloads"])
        self.most = most if most is not None else None if len(self.names) <= FEW else SAMPLE
        if self.most is None:
            return
        rings: dict[str, list[str]] = {}
        for name in sorted(self.names, key=lambda one: hashlib.sha256(one.encode()).digest()):
            # An empty name stands for all networks together.
            for network in {"", *(one["network"] for one in plan["workloads"][name]["interfaces"])}:
                rings.setdefault(network, []).append(name)
        self.rings = [(ring, {name: place for place, name in enumerate(ring)}) for ring in rings.values()]
        self.rings_of: dict[str, list[int]] = {name: [] for name in self.names}
        for number, (ring, _places) in enumerate(self.rings):
            for name in ring:
                self.rings_of[name].append(number)

    def of(self, source: str) -> list[str]:
        """Return the workloads that a source asks."""
        if self.most is None:
            return [name for name in self.names if name != source]
        found = {}
        for number in self.rings_of[source]:
            ring, places = self.rings[number]
            count = min(self.most, len(ring) - 1)
            found.update((ring[(places[source] + step) % len(ring)], None) for step in range(1, count + 1))
        return list(found)


def _pairs(plan: dict, source: str, target: str, interface: dict) -> list[Pair]:
    way_out = ""
    if not interface["addresses"]:
        bare = [own for own in plan["workloads"][source]["interfaces"] if not own["addresses"]]
        same = [own for own in bare if own["network"] == interface["network"]]
        if not bare:
            return []
        way_out = (same or bare)[0]["name"]
    reach, reason = _judged(plan, source, target, interface)
    mtu = plan["networks"][interface["network"]].get("mtu", 0) if reach else 0
    return [
        Pair(source, target, interface["network"], family(address), address, reach, reason, way_out, mtu)
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
