# SPDX-License-Identifier: Apache-2.0
"""MACs of workloads, and which of those that workloads request are taken.

ovn-kubernetes: the MAC that is requested, or the one that follows from the first address, or a random one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from ...common.addressing import family, mac_of_address, plain
from ...store.snapshot import Snapshot, StoredObject
from ..network.attachment import Attachment, Attachments, workload_key
from ..network.networks import Network, running_workloads
from .pools import AllocationFailure, local_mac
from .router_addresses import gateway_address, management_address


def mac_pool(network: str) -> str:
    """Name of the pool with the MACs of a network without addresses."""
    return f"mac/{network}"


def workload_mac(snapshot: Snapshot, workload: StoredObject, attachment: Attachment, addresses: list[str]) -> str:
    """Return the MAC of a workload's interface: requested, derived from its first address, or stored.

    `addresses` are those that the interface was given; the MAC is derived from them as in ovn-kubernetes.
    """
    requested = workload.spec.get("mac") if attachment.network.is_transit_routed else attachment.mac
    if requested:
        return requested
    if addresses:
        return mac_of_address(addresses[0])
    return snapshot.get(mac_pool(attachment.network.name), attachment.owner)


def assign_macs(snapshot: Snapshot, found: dict[str, Network], attachments: Attachments) -> set[str]:
    """Assign a MAC to each interface without an address to derive it from; return the names of the pools."""
    owners: dict[str, list[str]] = {network.name: [] for network in found.values() if not network.has_ipam}
    for workload in running_workloads(snapshot) if owners else ():
        for one in attachments.of(workload):
            if one.network.name in owners and not one.mac and not one.addresses:
                owners[one.network.name].append(one.owner)
    for name, claimants in owners.items():
        held = snapshot.allocations.get(mac_pool(name), {})
        kept = {owner: held[owner] for owner in claimants if owner in held}
        taken = set(kept.values())
        for owner in claimants:
            if owner not in kept:
                kept[owner] = local_mac((snapshot.name, name, owner), taken)
                taken.add(kept[owner])
        snapshot.allocations[mac_pool(name)] = kept
    return {mac_pool(name) for name in owners}


def taken_requests(
    snapshot: Snapshot,
    found: dict[str, Network],
    attachments: Attachments,
    running: Set[str],
    given: Callable[[StoredObject, Attachment], list[str]],
) -> list[AllocationFailure]:
    """Return which workloads cannot have a MAC or an address that they request, because another interface has it.

    Of two that want one value it is the one of `running` that keeps it. `given` returns what was allocated.
    """
    interfaces = [(workload, one) for workload in running_workloads(snapshot) for one in attachments.of(workload)]
    requested = {one.network.name for workload, one in interfaces if _requests(workload, one)}
    if not requested:
        return []
    held = {name: _router_macs(found[name]) for name in requested}
    interfaces.sort(key=lambda entry: entry[0].key not in running)
    return [
        failure
        for workload, one in interfaces
        if one.network.name in held
        for failure in _conflicts(snapshot, workload, one, given(workload, one), held[one.network.name])
    ]


def _requests(workload: StoredObject, attachment: Attachment) -> bool:
    if attachment.network.is_transit_routed:
        return bool(workload.spec.get("mac"))
    return bool(attachment.mac or attachment.addresses)


def _conflicts(
    snapshot: Snapshot,
    workload: StoredObject,
    attachment: Attachment,
    given: list[str],
    held: dict[str, tuple[str, str]],
) -> Iterator[AllocationFailure]:
    """Enter an interface's values into `held` (value -> workload and interface); yields those that another one has."""
    network, own = attachment.network, (workload_key(workload), attachment.interface)
    mac = workload_mac(snapshot, workload, attachment, [*given, *map(plain, attachment.addresses)])
    values = [f"address {plain(address)}" for address in attachment.addresses]
    for value in values + ([f"MAC {mac}"] if mac else []):
        holder, interface = held.setdefault(value, own)
        if (holder, interface) != own:
            other = f"its interface {interface}" if holder == own[0] else holder
            yield workload.key, f"{value} is already that of {other} on {network.name}", "choose another one"


def _router_macs(network: Network) -> dict[str, tuple[str, str]]:
    if not network.is_transit_routed:
        return {}
    first = min((subnet["cidr"] for subnet in network.subnets), key=family)
    return {
        f"MAC {mac_of_address(gateway_address(network, first))}": ("the gateway", ""),
        f"MAC {mac_of_address(management_address(network, first))}": ("the nodes", ""),
    }
