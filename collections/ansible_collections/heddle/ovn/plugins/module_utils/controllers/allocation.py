# SPDX-License-Identifier: Apache-2.0
"""Defines all pools (ids, tunnel keys, subnets, addresses) and who claims values of them; `pools` has the rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Set

from ..common.addressing import family, free_addresses, nth_subnet, overlapping, subnet_capacity
from ..common.naming import DEFAULT_NETWORK
from ..store.layer2_version import is_open
from ..store.snapshot import Snapshot
from .attachment import asked_addresses, assign_macs, networks_of, own_mistakes, taken_macs, workload_key
from .networks import Network, networks_by_namespace, running_workloads
from .placement import node_of
from .pools import AllocationFailure, Pool, allocate_pool, numbers
from .router_addresses import reserved_addresses
from .transit import choose_transit_subnets, transit_subnet_pool

TUNNEL_KEY_BASE = 16711683
DYNAMIC_TUNNEL_KEYS = (16715779, 16777215)
NETWORK_IDS = (1, 4095)
NODE_IDS = (2, 4999)
# The first nine keys of a switch with a transit router are the router's (OKEP-5094, "Tunnel keys").
PORT_TUNNEL_IDS = (1, 32766)
PORT_TUNNEL_IDS_BESIDE_ROUTER = (10, 32766)
INTERFACE_NUMBERS = (1, 9999)
_ADDRESSES = "address/"


def tunnel_key(network_id: int) -> int:
    """Return the key of a network's transit switch or Layer2 switch: base and network id."""
    return TUNNEL_KEY_BASE + network_id


def address_pool(network: str, subnet: str) -> str:
    """Name of the pool with the workload addresses of one subnet."""
    return f"{_ADDRESSES}{network}/{subnet}"


def release_addresses(snapshot: Snapshot, released: Collection[str]) -> Snapshot:
    """Return the snapshot without the kept addresses of these workloads, which no longer exist."""
    if not released:
        return snapshot
    allocations = {
        pool: {owner: value for owner, value in held.items() if not (owner in released and pool.startswith(_ADDRESSES))}
        for pool, held in snapshot.allocations.items()
    }
    return dataclasses.replace(snapshot, allocations=allocations)


def host_subnet_pool(network: str, family_number: int) -> str:
    """Name of the pool with the node subnets of one family."""
    return f"host-subnet/{network}/v{family_number}"


def tunnel_id_pool(network: str) -> str:
    """Name of the pool with the port tunnel keys of a Layer2 network."""
    return f"tunnel-id/{network}"


def interface_pool(workload: str) -> str:
    """Name of the pool with the numbers of a workload's secondary interfaces, `net1` and so on."""
    return f"interface/{workload}"


def gateway_router_owner(node: str) -> str:
    """Owner of the port tunnel key that a node's gateway router has on a Layer2 switch; no namespace is called so."""
    return f"Node/{node}"


def host_subnets(snapshot: Snapshot, network: Network, node: str) -> list[str]:
    """Return a node's subnets of a Layer3 network, IPv4 first; empty before they are allocated."""
    found = (snapshot.get(host_subnet_pool(network.name, version), node) for version in network.families)
    return [subnet for subnet in found if subnet is not None]


def workload_subnets(snapshot: Snapshot, network: Network, node: str) -> list[str]:
    """Return the subnets out of which a workload on a node gets its addresses."""
    if network.topology == "Layer3":
        return host_subnets(snapshot, network, node)
    return sorted((subnet["cidr"] for subnet in network.subnets), key=family)


def allocate(snapshot: Snapshot, found: dict[str, Network], running: Set[str] = frozenset()) -> list[AllocationFailure]:
    """Update the snapshot's allocations to its objects' claims; `running` are the workloads that ran before.

    Return failures as (object key, rule, remedy); the snapshot is then not to be stored. Objects that other rules
    reject are harmless here, so shortages can be reported together with other mistakes.
    """
    serving = networks_by_namespace(found)
    failures = own_mistakes(snapshot, serving)
    if failures:
        # These would conflict with other claims.
        return failures
    wanted: set[str] = set()
    for stage in (_number_pools, _host_subnet_pools, _workload_pools):
        for pool in stage(snapshot, found):
            wanted.add(pool.name)
            failures += allocate_pool(snapshot, pool)
    for network in found.values():
        if network.is_transit_routed:
            wanted.add(transit_subnet_pool(network.name))
            failures += choose_transit_subnets(snapshot, network, found)
    wanted |= assign_macs(snapshot, found, serving)
    failures += taken_macs(snapshot, serving, running)
    for name in set(snapshot.allocations) - wanted:
        del snapshot.allocations[name]
    snapshot.cursors = {name: position for name, position in snapshot.cursors.items() if name in wanted}
    return failures


def _number_pools(snapshot: Snapshot, found: dict[str, Network]) -> Iterator[Pool]:
    nodes = {node.name: node.key for node in snapshot.of_kind("Node")}
    users = {network.name: network.object_key for network in found.values() if not network.is_default}
    routed = {network.name: network.object_key for network in found.values() if network.is_transit_routed}
    remedy = "remove networks that are not needed any more"
    for name, holds, (first, last), owners, advice in (
        ("node-id", "node ids", NODE_IDS, nodes, "take hosts out of the inventory that are gone"),
        ("network-id", "network ids", NETWORK_IDS, users, remedy),
        ("tunnel-key", "tunnel keys of transit routers", DYNAMIC_TUNNEL_KEYS, routed, remedy),
    ):
        candidates = numbers(first, last, snapshot.cursors.get(name, first))
        yield Pool(name, f"{holds} {first} to {last}", advice, candidates, owners, round_robin=True)


def _host_subnet_pools(snapshot: Snapshot, found: dict[str, Network]) -> Iterator[Pool]:
    nodes = {node.name: node.key for node in snapshot.of_kind("Node")}
    for network in found.values():
        if network.topology != "Layer3":
            continue
        for version in network.families:
            owners = dict(nodes) if network.is_default else dict.fromkeys(nodes, network.object_key)
            cidrs = [subnet for subnet in network.subnets if family(subnet["cidr"]) == version]
            holds = f"host subnets in {', '.join(subnet['cidr'] for subnet in cidrs)}"
            remedy = "make a network with a larger subnet, or with a longer hostSubnet"
            if network.is_default:
                remedy = "take hosts out of the inventory; a cluster with more hosts needs larger cluster_subnets"
            elif network.role == "Primary":
                remedy = "add a subnet to the network"
            yield Pool(host_subnet_pool(network.name, version), holds, remedy, _subnets(cidrs), owners)


def _subnets(cidrs: list[dict]) -> Callable[[set[str]], Iterator[str]]:
    def candidates(taken: set[str]) -> Iterator[str]:
        for subnet in cidrs:
            cidr = subnet["cidr"]
            host_prefix = subnet["hostSubnet"] or (64 if family(cidr) == 6 else 24)
            for index in range(subnet_capacity(cidr, host_prefix)):
                text = nth_subnet(cidr, host_prefix, index)
                if text not in taken:
                    yield text

    return candidates


def _workload_pools(snapshot: Snapshot, found: dict[str, Network]) -> Iterator[Pool]:
    pools: dict[str, Pool] = {}
    serving = networks_by_namespace(found)
    for network in found.values():
        if network.is_persistent:
            for subnet in workload_subnets(snapshot, network, ""):
                _address_pool(pools, network, subnet)
    for workload in running_workloads(snapshot):
        owner = workload_key(workload)
        for network in networks_of(workload, found[DEFAULT_NETWORK], serving):
            for subnet in workload_subnets(snapshot, network, node_of(workload)):
                pool = _address_pool(pools, network, subnet)
                pool.owners[owner] = workload.key
                asked = asked_addresses(workload, network, subnet)
                if asked:
                    pool.asked[owner] = asked[0]
            if network.topology == "Layer2":
                _tunnel_ids(pools, network)[owner] = workload.key
            if network.role == "Secondary":
                _interfaces(pools, owner)[network.name] = workload.key
    for network in found.values() if is_open(snapshot) else ():
        if network.is_transit_routed:
            for node in snapshot.of_kind("Node"):
                _tunnel_ids(pools, network)[gateway_router_owner(node.name)] = network.object_key
    yield from pools.values()


def _tunnel_ids(pools: dict[str, Pool], network: Network) -> dict[str, str]:
    name = tunnel_id_pool(network.name)
    if name not in pools:
        first, last = PORT_TUNNEL_IDS_BESIDE_ROUTER if network.is_transit_routed else PORT_TUNNEL_IDS
        holds = f"port tunnel ids {first} to {last} of {network.name}"
        remedy = "remove workloads, or put some of them into another network"
        pools[name] = Pool(name, holds, remedy, numbers(first, last))
    return pools[name].owners


def _interfaces(pools: dict[str, Pool], workload: str) -> dict[str, str]:
    name = interface_pool(workload)
    if name not in pools:
        remedy = "serve its namespace with fewer secondary networks"
        pools[name] = Pool(name, f"interfaces of {workload}", remedy, numbers(*INTERFACE_NUMBERS))
    return pools[name].owners


def _address_pool(pools: dict[str, Pool], network: Network, subnet: str) -> Pool:
    name = address_pool(network.name, subnet)
    if name not in pools:
        reserved = reserved_addresses(network, subnet)
        parts = network.excluded + network.reserved + network.infrastructure
        excluded = [part for part in parts if overlapping(part, subnet)]
        namespaces = set(network.namespaces)
        pools[name] = Pool(
            name,
            f"addresses in {subnet} of {network.name}",
            "remove workloads, or make a network with a larger subnet",
            lambda taken: free_addresses(subnet, taken | reserved, excluded),
            # As KubeVirt does with a claim of its own: the address is kept for a workload of the same name.
            is_kept=(lambda owner: owner.partition("/")[0] in namespaces) if network.is_persistent else None,
        )
    return pools[name]
