# SPDX-License-Identifier: Apache-2.0
"""Addresses and MACs that a workload may request on its primary Layer2 network, and generated MACs.

ovn-kubernetes, preconfigured addresses: a workload names its addresses and its MAC there, out of the subnets but
not out of what is kept for infrastructure; `reservedSubnets` are used for such requests only.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from ..common.addressing import family, mac_of_address, network_of, overlapping
from ..common.naming import DEFAULT_PHYSICAL_NETWORK, PRIMARY_NETWORK_LABEL
from ..store.snapshot import Snapshot, StoredObject
from .networks import Network, running_workloads
from .placement import node_of
from .pools import AllocationFailure, local_mac
from .router_addresses import gateway_address, management_address, reserved_addresses

_ELSEWHERE = "take one of another range"


def workload_key(workload: StoredObject) -> str:
    """Return the name of a workload as an owner in pools."""
    return f"{workload.namespace}/{workload.name}"


def moves_live(workload: StoredObject) -> bool:
    """Return whether a workload may migrate live, which excludes addresses that belong to a host."""
    return workload.spec["kind"] == "vm"


def networks_of(workload: StoredObject, default: Network, serving: dict[str, list[Network]]) -> list[Network]:
    """Return the networks that a workload is attached to; `serving` are the user-defined ones by namespace."""
    networks = serving.get(workload.namespace, [])
    return networks if moves_live(workload) else [default, *networks]


def mac_pool(network: str) -> str:
    """Name of the pool with the MACs of a network that gives no addresses."""
    return f"mac/{network}"


def asked_addresses(workload: StoredObject, network: Network, subnet: str) -> list[str]:
    """Return the addresses of a subnet that a workload asks for and may have."""
    if not network.is_transit_routed:
        return []
    return [
        address
        for address in workload.spec.get("addresses", [])
        if overlapping(address, subnet) and not _refusal(address, network, subnet)
    ]


def workload_mac(snapshot: Snapshot, workload: StoredObject, network: Network, addresses: list[str]) -> str:
    """Return the MAC of a workload's interface: requested, derived from its first address, or stored."""
    if network.is_transit_routed and workload.spec.get("mac"):
        return workload.spec["mac"]
    if addresses:
        return mac_of_address(addresses[0])
    return snapshot.get(mac_pool(network.name), workload_key(workload))


def assign_macs(snapshot: Snapshot, found: dict[str, Network], serving: dict[str, list[Network]]) -> set[str]:
    """Assign a MAC to each workload of each network without addresses; return the names of the pools."""
    owners = {network.name: [] for network in found.values() if not network.has_ipam}
    for workload in running_workloads(snapshot) if owners else ():
        for network in serving.get(workload.namespace, []):
            if network.name in owners:
                owners[network.name].append(workload_key(workload))
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


def own_mistakes(snapshot: Snapshot, serving: dict[str, list[Network]]) -> list[AllocationFailure]:
    """Return errors in workloads' own requests, whatever other workloads have."""
    failures = list(_unconnected(snapshot, serving))
    for workload, network in _asking(snapshot, serving):
        if network is None:
            rule = f"asks for addresses or a MAC, and namespace {workload.namespace} has no primary Layer2 network"
            failures.append((workload.key, rule, f"leave them out, or see to the label {PRIMARY_NETWORK_LABEL}"))
        else:
            failures += [(workload.key, *problem) for problem in _address_problems(workload, network)]
    return failures


def taken_macs(snapshot: Snapshot, serving: dict[str, list[Network]], running: Set[str]) -> list[AllocationFailure]:
    """Return which workloads cannot have their MAC, because another one of the network has it.

    Of two that want one MAC the one in `running` keeps it.
    """
    asking: dict[str, list[StoredObject]] = {}
    for workload, network in _asking(snapshot, serving):
        if network is not None and workload.spec.get("mac"):
            asking.setdefault(network.name, []).append(workload)
    return list(_mac_problems(snapshot, serving, asking, running)) if asking else []


def _asking(snapshot: Snapshot, serving: dict[str, list[Network]]) -> Iterator[tuple[StoredObject, Network | None]]:
    """Workloads that ask for an address or a MAC, with the network that they ask it of."""
    for workload in running_workloads(snapshot):
        if workload.spec.get("addresses") or workload.spec.get("mac"):
            yield workload, next((one for one in serving.get(workload.namespace, []) if one.is_transit_routed), None)


def _unconnected(snapshot: Snapshot, serving: dict[str, list[Network]]) -> Iterator[AllocationFailure]:
    """Workloads of Localnet networks on nodes whose bridge mappings lack the physical network."""
    if not any(network.topology == "Localnet" for networks in serving.values() for network in networks):
        return
    gateways = {node.name: node.spec.get("gateway") for node in snapshot.of_kind("Node")}
    for workload in running_workloads(snapshot):
        node = node_of(workload)
        for network in serving.get(workload.namespace, []):
            gateway = gateways.get(node)
            if network.topology != "Localnet" or not gateway:
                continue
            known = [DEFAULT_PHYSICAL_NETWORK, *gateway.get("physical_networks", {})]
            if network.physical_network not in known:
                rule = (
                    f"node {node} has no mapping for the physical network {network.physical_network} of {network.name}"
                )
                yield workload.key, rule, f"it has {', '.join(known)}; name others in the inventory and install again"


def _address_problems(workload: StoredObject, network: Network) -> Iterator[tuple[str, str]]:
    asked = workload.spec.get("addresses", [])
    subnets = [subnet["cidr"] for subnet in network.subnets]
    for address in asked:
        subnet = next((one for one in subnets if overlapping(address, one)), None)
        if subnet is None:
            yield f"address {address} is in no subnet of {network.name}", f"take one of {', '.join(subnets)}"
        elif refusal := _refusal(address, network, subnet):
            yield refusal, _ELSEWHERE
    if asked and sorted(map(family, asked)) != list(network.families):
        families = " and one ".join(f"IPv{version}" for version in network.families)
        yield (
            f"asks for {', '.join(asked)}, but {network.name} gives each workload one {families} address",
            ("name one address of each family, or none"),
        )


def _refusal(address: str, network: Network, subnet: str) -> str:
    """Return why an address in a subnet is not for workloads, "" when it is."""
    whole = network_of(subnet)
    if address == str(whole.network_address) or (whole.version == 4 and address == str(whole.broadcast_address)):
        return f"address {address} stands for the whole subnet {subnet}"
    if address in reserved_addresses(network, subnet):
        return f"address {address} is that of the network's gateway or of the nodes"
    kept = next((part for part in network.infrastructure if overlapping(address, part)), None)
    return f"address {address} is in {kept}, which is kept for infrastructure" if kept else ""


def _mac_problems(
    snapshot: Snapshot,
    serving: dict[str, list[Network]],
    asking: dict[str, list[StoredObject]],
    running: Set[str],
) -> Iterator[AllocationFailure]:
    holders: dict[str, dict[str, str]] = {name: {} for name in asking}
    for workload in sorted(running_workloads(snapshot), key=lambda one: one.key not in running):
        network = next((one for one in serving.get(workload.namespace, []) if one.name in holders), None)
        if network is None:
            continue
        held = holders[network.name]
        if not held:
            held.update(_router_macs(network))
        subnets = sorted((subnet["cidr"] for subnet in network.subnets), key=family)
        given = [snapshot.get(f"address/{network.name}/{subnet}", workload_key(workload)) for subnet in subnets]
        mac = workload_mac(snapshot, workload, network, [address for address in given if address])
        other = held.setdefault(mac, workload_key(workload)) if mac else workload_key(workload)
        if other != workload_key(workload):
            yield workload.key, f"MAC {mac} is already that of {other} on {network.name}", "choose another one"


def _router_macs(network: Network) -> dict[str, str]:
    first = min((subnet["cidr"] for subnet in network.subnets), key=family)
    return {
        mac_of_address(gateway_address(network, first)): "the gateway",
        mac_of_address(management_address(network, first)): "the nodes",
    }
