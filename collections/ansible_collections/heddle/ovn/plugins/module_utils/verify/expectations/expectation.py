# SPDX-License-Identifier: Apache-2.0
"""Expected reachability between workloads, from the plan (OKEP-5193, "Network Segmentation"). Pure.

Two workloads reach each other on the networks that both are attached to, unless one of the interfaces is locked or
policies do not permit it. Everything else must not get an answer, whatever the addresses are.

A network without addresses is tested with the link-local ones that the kernel derives from MACs. These have no route,
so such a packet names its interface: the one on that network, or else on another network without addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_interface

from ...common.addressing import family, link_local_address, plain
from ...common.naming import LOCKED_ROLE
from ..probing.datagram import PORT
from .policy_permissions import PolicyPermissions
from .pools import is_undecided
from .selection import ALL, Chosen, Groups, Selection


@dataclass(frozen=True, slots=True)
class Pair:
    """One address of a target and one source. `network` is the one that the address belongs to.

    `interface` is the source's outgoing interface for a link-local address, and empty otherwise (routed). `mtu` is
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


def fields_of(one) -> dict:
    """Return the fields of a pair or an external flow by name; `dataclasses.asdict` would copy each value."""
    return {name: getattr(one, name) for name in one.__slots__}


def addresses_of(interface: dict) -> list[str]:
    """Return the addresses that an interface answers on."""
    return [plain(address) for address in interface["addresses"]] or [link_local_address(interface["mac"])]


_EVERYWHERE = ("0.0.0.0/0", "::/0")


def askers(plan: dict) -> dict:
    """Return the plan without virtual machines: no probe or responder runs in them."""
    asked = {name: workload for name, workload in plan["workloads"].items() if workload["kind"] == "netns"}
    return {**plan, "workloads": asked}


def default_elsewhere(workload: dict) -> dict[int, str]:
    """Return by family the interface that a workload's default route leads out of, where that is not a primary one."""
    return {
        family(route["via"]): interface["name"]
        for interface in workload["interfaces"]
        if interface["role"] == "secondary"
        for route in interface["routes"]
        if route["to"] in _EVERYWHERE
    }


def expected(plan: dict, node: str | None = None, selection: Selection | None = None) -> list[Pair]:
    """Return (source, address of another workload) pairs with the expected result; `node` limits them to its sources.

    The selection decides which of all pairs are tested (`selection.py`).
    """
    selection = selection or Selection()
    chosen = None if selection.pairs == ALL else Groups(askers(plan), selection).chosen(node)
    return pairs_of(plan, chosen, node)


def pairs_of(plan: dict, chosen: list[Chosen] | None, node: str | None = None) -> list[Pair]:
    """Return the pairs of the questions that were chosen; without any (None), of all workloads or those of a node."""
    plan = askers(plan)
    permissions = PolicyPermissions(plan)
    if chosen is None:
        return [
            pair
            for source, described in plan["workloads"].items()
            if node in (None, described["node"])
            for target in plan["workloads"]
            if target != source
            if not is_undecided(plan, source, target)
            for interface in plan["workloads"][target]["interfaces"]
            for pair in _pairs(plan, permissions, source, target, interface)
        ]
    return [
        pair
        for one in chosen
        if not is_undecided(plan, one.source, one.target)
        for interface in plan["workloads"][one.target]["interfaces"]
        if interface["network"] == one.network
        for pair in _pairs(plan, permissions, one.source, one.target, interface)
    ]


def _pairs(plan: dict, permissions: PolicyPermissions, source: str, target: str, interface: dict) -> list[Pair]:
    interface_name = ""
    if not interface["addresses"]:
        # A port with addresses of its own may send from no other one, so it is asked by those without any only.
        bare = [own for own in plan["workloads"][source]["interfaces"] if not own["addresses"]]
        same = [own for own in bare if own["network"] == interface["network"]]
        if not bare or (not same and _ends(plan, source, interface["network"])):
            return []
        interface_name = (same or bare)[0]["name"]
    reach, reason = _evaluated(plan, source, target, interface)
    mtu = plan["networks"][interface["network"]].get("mtu", 0)
    found = []
    for address in addresses_of(interface):
        wanted = (reach, reason)
        if reach and interface["addresses"] and not _has_route(plan, source, interface, address):
            wanted = (False, f"{source} has no address in the subnet of {address}")
        elif reach and interface["addresses"]:
            wanted = _by_policies(plan, permissions, source, target, interface["network"], address) or wanted
        size = mtu if wanted[0] else 0
        found.append(
            Pair(source, target, interface["network"], family(address), address, *wanted, interface_name, size)
        )
    return found


def _ends(plan: dict, name: str, network: str) -> list[dict]:
    """Return a workload's interfaces on a network."""
    return [one for one in plan["workloads"][name]["interfaces"] if one["network"] == network]


def primary_network(plan: dict, name: str) -> str:
    """Return the primary network of a workload that has one."""
    return next(one["network"] for one in plan["workloads"][name]["interfaces"] if one["role"] == "primary")


def is_attached(plan: dict, name: str, network: str) -> bool:
    """Return whether a workload has an interface on a network by which it may send."""
    return any(one["role"] != LOCKED_ROLE for one in _ends(plan, name, network))


def _has_route(plan: dict, source: str, interface: dict, address: str) -> bool:
    """Return whether both ends are in one subnet, where addresses are those that workloads request (no IPAM)."""
    if plan["networks"][interface["network"]]["subnets"]:
        return True
    its = next(ip_interface(one) for one in interface["addresses"] if plain(one) == address)
    own = (ip_interface(one) for end in _ends(plan, source, interface["network"]) for one in end["addresses"])
    return any(mine.version == its.version and its.ip in mine.network and mine.ip in its.network for mine in own)


def _by_policies(
    plan: dict, permissions: PolicyPermissions, source: str, target: str, network: str, address: str
) -> tuple[bool, str] | None:  # fmt: skip
    """Return the result where policies decide about the packet, None otherwise."""
    own = (plain(one) for end in _ends(plan, source, network) for one in end["addresses"])
    sender = next((one for one in own if family(one) == family(address)), None)
    if sender is None:
        return None
    asked = (network, source, target, (sender, address), "UDP", PORT)
    refusal = permissions.refusal(*asked)
    if refusal:
        return False, refusal
    rules = permissions.permitting(*asked)
    return (True, "; ".join([_attached_to(network), *rules])) if rules else None


def _evaluated(plan: dict, source: str, target: str, interface: dict) -> tuple[bool, str]:
    network = interface["network"]
    mine = next(iter(_ends(plan, source, network)), None)
    if mine is None:
        return False, f"{source} is not attached to {network}"
    for name, end in ((source, mine), (target, interface)):
        if end["role"] == LOCKED_ROLE:
            return False, f"{network} is locked for {name}, whose primary network is another one"
    return True, _attached_to(network)


def _attached_to(network: str) -> str:
    return f"both are attached to {network}"
