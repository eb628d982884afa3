# SPDX-License-Identifier: Apache-2.0
"""MACs of workloads, and which of those that workloads request are taken.

ovn-kubernetes: the MAC that is requested, or the one that follows from the first address, or a random one. With the
first IPv4 subnet of a network its workloads get another first address; interfaces that exist keep their MACs then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set

from ...common.addressing import family, mac_of_address, plain
from ...store.snapshot import Snapshot, StoredObject
from ..network.attachment import Attachment, Attachments, workload_key
from ..network.networks import Network, running_workloads
from .pools import AllocationFailure, local_mac
from .router_addresses import gateway_address, management_address

# What was allocated to an interface of a workload.
Given = Callable[[StoredObject, Attachment], list[str]]


def mac_pool(network: str) -> str:
    """Name of the pool with the MACs of a network that do not follow from addresses."""
    return f"mac/{network}"


def workload_mac(snapshot: Snapshot, workload: StoredObject, attachment: Attachment, addresses: list[str]) -> str:
    """Return the MAC of a workload's interface: requested, stored, or derived from its first address.

    `addresses` are those that the interface was given; the MAC is derived from them as in ovn-kubernetes.
    """
    requested = workload.spec.get("mac") if attachment.network.is_transit_routed else attachment.mac
    if requested:
        return requested
    stored = snapshot.get(mac_pool(attachment.network.name), attachment.owner)
    return mac_of_address(addresses[0]) if stored is None and addresses else stored


def derived_macs(
    snapshot: Snapshot, attachments: Attachments, running: Set[str], networks: Set[str], given: Given
) -> dict[str, dict[str, str]]:
    """Return the MACs that interfaces of running workloads have by their addresses, by network and owner."""
    found: dict[str, dict[str, str]] = {name: {} for name in networks}
    for workload in running_workloads(snapshot) if networks else ():
        for one in attachments.of(workload) if workload.key in running else ():
            addresses = given(workload, one) if one.network.name in networks else []
            if addresses:
                found[one.network.name][one.owner] = workload_mac(snapshot, workload, one, addresses)
    return found


def assign_macs(
    snapshot: Snapshot, found: dict[str, Network], attachments: Attachments, former: Mapping[str, Mapping[str, str]]
) -> set[str]:
    """Assign a MAC to each interface without an address to derive it from; return the names of the pools.

    `former` are MACs that interfaces have, and would not have by their addresses any more: they keep them, as long as
    they are there.
    """
    networks = {
        name: network
        for name, network in found.items()
        if not network.has_ipam or name in former or mac_pool(name) in snapshot.allocations
    }
    claimants: dict[str, list[str]] = {name: [] for name in networks}
    for workload in running_workloads(snapshot) if networks else ():
        for one in attachments.of(workload):
            if one.network.name in networks and not one.mac and not one.addresses:
                claimants[one.network.name].append(one.owner)
    pools = set()
    for name, owners in claimants.items():
        held = {**former.get(name, {}), **snapshot.allocations.get(mac_pool(name), {})}
        kept = {owner: held[owner] for owner in owners if owner in held}
        if not networks[name].has_ipam:
            _add_macs(kept, owners, (snapshot.name, name))
        elif not kept:
            continue
        snapshot.allocations[mac_pool(name)] = kept
        pools.add(mac_pool(name))
    return pools


def _add_macs(kept: dict[str, str], owners: list[str], place: tuple[str, str]) -> None:
    taken = set(kept.values())
    for owner in owners:
        if owner not in kept:
            kept[owner] = local_mac((*place, owner), taken)
            taken.add(kept[owner])


def taken_requests(
    snapshot: Snapshot,
    found: dict[str, Network],
    attachments: Attachments,
    running: Set[str],
    given: Given,
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
