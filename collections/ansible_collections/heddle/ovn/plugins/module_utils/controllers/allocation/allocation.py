# SPDX-License-Identifier: Apache-2.0
"""Defines all pools (ids, tunnel keys, subnets, addresses) and who claims values of them; `pools` has the rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Set

from ...common.addressing import family, free_addresses, nth_subnet, overlapping, subnet_capacity
from ...store.layer2_version import is_open
from ...store.snapshot import Snapshot, StoredObject
from ..coil.allocation import allocate_pools
from ..egress.egress_ips import egress_mark_pool
from ..network.attachment import Attachment, Attachments, asked_addresses, own_mistakes
from ..network.network_selection import unreachable_gateway
from ..network.networks import Network, running_workloads
from ..services.cluster_ips import cluster_ip_pools
from ..services.load_balancer_addresses import load_balancer_pools
from ..services.local_ports import local_port_pools
from ..services.node_ports import node_port_pools
from ..workload.placement import node_of
from .pools import AllocationFailure, Pool, allocate_pool, numbers, workload_of
from .provider_addresses import ProviderAddresses
from .router_addresses import reserved_addresses
from .transit import choose_transit_subnets, transit_subnet_pool
from .tunnel_keys import key_ranges
from .workload_macs import assign_macs, derived_macs, taken_requests

_ADDRESSES = "address/"
# Pools whose owners are networks.
_OF_NETWORKS = ("network-id", "tunnel-key")


def address_pool(network: str, subnet: str) -> str:
    """Name of the pool with the workload addresses of one subnet."""
    return f"{_ADDRESSES}{network}/{subnet}"


def release_addresses(snapshot: Snapshot, released: Collection[str]) -> Snapshot:
    """Return the snapshot without the kept addresses of these workloads, which no longer exist."""
    if not released:
        return snapshot
    allocations = {
        pool: {
            owner: value
            for owner, value in held.items()
            if not (workload_of(owner) in released and pool.startswith(_ADDRESSES))
        }
        for pool, held in snapshot.allocations.items()
    }
    return dataclasses.replace(snapshot, allocations=allocations)


def host_subnet_pool(network: str, family_number: int) -> str:
    """Name of the pool with the node subnets of one family."""
    return f"host-subnet/{network}/v{family_number}"


def tunnel_id_pool(network: str) -> str:
    """Name of the pool with the port tunnel keys of a Layer2 network."""
    return f"tunnel-id/{network}"


def gateway_router_owner(node: str) -> str:
    """Owner of the port tunnel key that a node's gateway router has on a Layer2 switch; no namespace is called so."""
    return f"Node/{node}"


def host_subnets(snapshot: Snapshot, network: Network, node: str) -> list[str]:
    """Return a node's subnets of a Layer3 network, IPv4 first; empty before they are allocated."""
    found = (snapshot.get(host_subnet_pool(network.name, version), node) for version in network.families)
    return [subnet for subnet in found if subnet is not None]


def host_subnets_of(snapshot: Snapshot, network: Network, nodes: Collection[str]) -> dict[str, list[str]]:
    """Return the subnets of those of the nodes that have one of each family of a Layer3 network, IPv4 first."""
    pools = [snapshot.allocations.get(host_subnet_pool(network.name, version), {}) for version in network.families]
    return {node: [held[node] for held in pools] for node in nodes if all(node in held for held in pools)}


def nodes_with_subnets(snapshot: Snapshot, network: Network, nodes: Collection[str]) -> Collection[str]:
    """Return those of the nodes that can have a network: on Layer3 the ones with a subnet of each of its families."""
    return list(host_subnets_of(snapshot, network, nodes)) if network.topology == "Layer3" else nodes


def workload_subnets(snapshot: Snapshot, network: Network, node: str) -> list[str]:
    """Return the subnets (CIDR) out of which a workload on a node gets its addresses, IPv4 first.

    Those of the node on a Layer3 network, those of the network on others; none without IPAM.
    """
    if network.topology == "Layer3":
        return host_subnets(snapshot, network, node)
    return sorted((subnet["cidr"] for subnet in network.subnets), key=family)


class WorkloadSubnets:
    """`workload_subnets`, each computed once; to be used only while the subnets of hosts stay as they are."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[tuple[str, str], list[str]] = {}

    def of(self, network: Network, node: str) -> list[str]:
        """Return the subnets out of which a workload on a node gets its addresses."""
        place = network.name, node if network.topology == "Layer3" else ""
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = workload_subnets(self._snapshot, network, node)
        return found


def given_addresses(snapshot: Snapshot, attachment: Attachment, subnets: list[str]) -> list[str]:
    """Return the addresses that an interface was given of `subnets`, without those that are not there yet."""
    pools = (address_pool(attachment.network.name, subnet) for subnet in subnets)
    return [address for pool in pools if (address := snapshot.get(pool, attachment.owner)) is not None]


def allocate(
    snapshot: Snapshot,
    found: dict[str, Network],
    running: Set[str] = frozenset(),
    kept: Mapping[str, str] | None = None,
) -> list[AllocationFailure]:
    """Update the snapshot's allocations to its objects' claims; `running` are the workloads that had theirs before.

    `kept` are networks that are not in `found`, by name with the key of their object; they keep all that is allocated
    to them and in them. Return failures as (object key, rule, remedy); the snapshot is then not to be stored. Objects
    that other rules reject are harmless here, so shortages can be reported together with other mistakes.
    """
    kept = kept or {}
    attachments = Attachments(found)
    failures = own_mistakes(snapshot, attachments)
    if failures:
        # These would conflict with other claims.
        return failures

    def given(workload: StoredObject, attachment: Attachment) -> list[str]:
        subnets = workload_subnets(snapshot, attachment.network, node_of(workload))
        return given_addresses(snapshot, attachment, subnets)

    former = derived_macs(snapshot, attachments, running, _gaining_ipv4(snapshot, found), given)
    wanted: set[str] = set()
    for stage in (_number_pools, _host_subnet_pools, _workload_pools, _service_pools):
        for pool in stage(snapshot, found, attachments):
            wanted.add(pool.name)
            if pool.name in _OF_NETWORKS:
                pool.owners |= {name: key for name, key in kept.items() if snapshot.get(pool.name, name)}
            failures += allocate_pool(snapshot, pool)
    for network in found.values():
        if network.is_transit_routed:
            wanted.add(transit_subnet_pool(network.name))
            failures += choose_transit_subnets(snapshot, network, found)
    names, exhausted = allocate_pools(snapshot)
    wanted, failures = wanted | names, failures + exhausted
    wanted |= assign_macs(snapshot, found, attachments, former)
    failures += taken_requests(snapshot, found, attachments, running, given)
    failures += _unreachable_gateways(snapshot, attachments)
    for name in {name for name in snapshot.allocations if network_of(name) not in kept} - wanted:
        del snapshot.allocations[name]
    snapshot.cursors = {name: position for name, position in snapshot.cursors.items() if name in wanted}
    return failures


def _gaining_ipv4(snapshot: Snapshot, found: dict[str, Network]) -> set[str]:
    """Return the networks that get their first IPv4 subnet, which Layer3 networks can; allocations are those before."""
    return {
        name
        for name, network in found.items()
        if network.topology == "Layer3"
        and network.families == (4, 6)
        and host_subnet_pool(name, 4) not in snapshot.allocations
        and host_subnet_pool(name, 6) in snapshot.allocations
    }


def network_of(pool: str) -> str:
    """Return the network that a pool belongs to, "" for pools of the cluster."""
    return pool.partition("/")[2].partition("/")[0]


def _unreachable_gateways(snapshot: Snapshot, attachments: Attachments) -> Iterator[AllocationFailure]:
    """Gateways that a workload cannot reach from its node, whose subnets of a Layer3 network are known only now."""
    for workload in running_workloads(snapshot):
        for one in attachments.of(workload):
            if one.gateways and one.network.topology == "Layer3":
                rule = unreachable_gateway(one, workload_subnets(snapshot, one.network, node_of(workload)))
                if rule:
                    yield workload.key, f"{one.interface}: {rule}", "choose a gateway in the node's host subnet"


def _number_pools(snapshot: Snapshot, found: dict[str, Network], _attachments: Attachments) -> Iterator[Pool]:
    nodes = {node.name: node.key for node in snapshot.of_kind("Node")}
    users = {network.name: network.object_key for network in found.values() if not network.is_default}
    routed = {network.name: network.object_key for network in found.values() if network.is_transit_routed}
    remedy, ranges = "remove networks that are not needed any more", key_ranges(snapshot)
    for name, holds, (first, last), owners, advice in (
        ("node-id", "node ids", ranges.node_ids, nodes, "take hosts out of the inventory that are gone"),
        ("network-id", "network ids", ranges.network_ids, users, remedy),
        ("tunnel-key", "tunnel keys of transit routers", ranges.routers, routed, remedy),
    ):
        candidates = numbers(first, last, snapshot.cursors.get(name, first))
        yield Pool(name, f"{holds} {first} to {last}", advice, candidates, owners, round_robin=True)
    if (marks := egress_mark_pool(snapshot)).owners:
        yield marks


def _host_subnet_pools(snapshot: Snapshot, found: dict[str, Network], _attachments: Attachments) -> Iterator[Pool]:
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


def _workload_pools(snapshot: Snapshot, found: dict[str, Network], attachments: Attachments) -> Iterator[Pool]:
    pools: dict[str, Pool] = {}
    workloads, subnets = running_workloads(snapshot), WorkloadSubnets(snapshot)
    is_kept = _kept_owners(snapshot, workloads)
    provider = ProviderAddresses(snapshot)
    for network in found.values():
        if network.is_persistent:
            for subnet in workload_subnets(snapshot, network, ""):
                _address_pool(pools, network, subnet, is_kept, provider)
    for workload in workloads:
        node = node_of(workload)
        for one in attachments.of(workload):
            network = one.network
            for subnet in subnets.of(network, node):
                pool = _address_pool(pools, network, subnet, is_kept, provider)
                pool.owners[one.owner] = workload.key
                asked = asked_addresses(workload, network, subnet)
                if asked:
                    pool.asked[one.owner] = asked[0]
            if network.topology == "Layer2":
                _tunnel_ids(pools, network, snapshot)[one.owner] = workload.key
    for network in found.values() if is_open(snapshot) else ():
        if network.is_transit_routed:
            for node in snapshot.of_kind("Node"):
                _tunnel_ids(pools, network, snapshot)[gateway_router_owner(node.name)] = network.object_key
    yield from pools.values()


def _service_pools(snapshot: Snapshot, _found: dict[str, Network], attachments: Attachments) -> Iterator[Pool]:
    yield from cluster_ip_pools(snapshot)
    yield from node_port_pools(snapshot)
    yield from local_port_pools(snapshot)
    yield from load_balancer_pools(snapshot, attachments)


def _kept_owners(snapshot: Snapshot, workloads: list[StoredObject]) -> Callable[[str], bool]:
    """Return whether an owner without a claim keeps its address: its namespace is there, and it does not run."""
    namespaces = {entry.name for entry in snapshot.of_kind("Namespace")}
    running = {f"{workload.namespace}/{workload.name}" for workload in workloads}
    return lambda owner: owner.partition("/")[0] in namespaces and workload_of(owner) not in running


def _tunnel_ids(pools: dict[str, Pool], network: Network, snapshot: Snapshot) -> dict[str, str]:
    name = tunnel_id_pool(network.name)
    if name not in pools:
        ranges = key_ranges(snapshot)
        first, last = ranges.ports_beside_router if network.is_transit_routed else ranges.ports
        holds = f"port tunnel ids {first} to {last} of {network.name}"
        remedy = "remove workloads, or put some of them into another network"
        pools[name] = Pool(name, holds, remedy, numbers(first, last))
    return pools[name].owners


def _address_pool(
    pools: dict[str, Pool],
    network: Network,
    subnet: str,
    is_kept: Callable[[str], bool],
    provider: ProviderAddresses,
) -> Pool:
    name = address_pool(network.name, subnet)
    if name not in pools:
        reserved = reserved_addresses(network, subnet)
        parts = [*network.excluded, *network.reserved, *network.infrastructure, *provider.taken_on(network)]
        excluded = [part for part in parts if overlapping(part, subnet)]
        pools[name] = Pool(
            name,
            f"addresses in {subnet} of {network.name}",
            "remove workloads, or make a network with a larger subnet",
            lambda taken: free_addresses(subnet, taken | reserved, excluded),
            # As KubeVirt does with a claim of its own: the address is kept for a workload of the same name.
            is_kept=is_kept if network.is_persistent else None,
        )
    return pools[name]
