# SPDX-License-Identifier: Apache-2.0
"""Who gets which number, subnet and address.

One rule for all pools: every owner that still claims a value keeps it, values without a claimant are freed, and new
claimants get the next candidate. Whether two operators may do that at once is not decided here: the database's
indexes refuse a value that is given twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..addressing import (
    GATEWAY_OFFSET,
    MANAGEMENT_OFFSET,
    family,
    free_addresses,
    network_of,
    nth_address,
    nth_subnet,
    overlapping,
    subnet_capacity,
)
from ..naming import DEFAULT_NETWORK
from .layer2_version import is_open
from .networks import Network, networks_by_namespace
from .placement import node_of
from .snapshot import Snapshot

TUNNEL_KEY_BASE = 16711683
DYNAMIC_TUNNEL_KEYS = (16715779, 16777215)
NETWORK_IDS = (1, 4095)
NODE_IDS = (2, 4999)
PORT_TUNNEL_IDS = (10, 32766)
TRANSIT_ATTEMPTS = 10


@dataclass
class Pool:
    """A pool, those who claim a value of it, and where fresh values come from."""

    name: str
    owners: dict[str, str]
    candidates: Callable[[set[str]], Iterator[str]]
    holds: str
    round_robin: bool = False


def tunnel_key(network_id: int) -> int:
    """Return the key of a network's transit switch or Layer2 switch: base and network id."""
    return TUNNEL_KEY_BASE + network_id


def address_pool(network: str, subnet: str) -> str:
    """Name of the pool with the workload addresses of one subnet."""
    return f"address/{network}/{subnet}"


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
    found = (snapshot.get(host_subnet_pool(network.name, number), node) for number in network.families)
    return [subnet for subnet in found if subnet is not None]


def workload_subnets(snapshot: Snapshot, network: Network, node: str) -> list[str]:
    """Return the subnets out of which a workload on a node gets its addresses."""
    if network.topology == "Layer3":
        return host_subnets(snapshot, network, node)
    return sorted((subnet["cidr"] for subnet in network.subnets), key=family)


def allocate(snapshot: Snapshot, found: dict[str, Network]) -> list[tuple[str, str, str]]:
    """Bring the snapshot's allocations to what its objects claim.

    Returns what could not be given, as (object key, rule, remedy); the snapshot is then not to be stored.
    """
    failures: list[tuple[str, str, str]] = []
    wanted: set[str] = set()
    for stage in (_number_pools, _host_subnet_pools, _workload_pools):
        for pool in stage(snapshot, found):
            wanted.add(pool.name)
            failures += _settle(snapshot, pool)
    for name in set(snapshot.allocations) - wanted:
        del snapshot.allocations[name]
    snapshot.cursors = {name: position for name, position in snapshot.cursors.items() if name in wanted}
    return failures


def _settle(snapshot: Snapshot, pool: Pool) -> list[tuple[str, str, str]]:
    held = snapshot.allocations.get(pool.name, {})
    kept = {owner: value for owner, value in held.items() if owner in pool.owners}
    taken = set(kept.values())
    failures = []
    fresh = pool.candidates(taken)
    for owner in sorted(set(pool.owners) - set(kept)):
        value = next(fresh, None)
        if value is None:
            remedy = "remove owners that are not needed any more or make the pool larger"
            failures.append((pool.owners[owner], f"{pool.holds}: all {len(taken)} are taken, none is left", remedy))
            continue
        kept[owner] = value
        taken.add(value)
        if pool.round_robin:
            snapshot.cursors[pool.name] = int(value) + 1
    snapshot.allocations[pool.name] = kept
    return failures


def _numbers(first: int, last: int, start: int | None = None) -> Callable[[set[str]], Iterator[str]]:
    """Candidates first..last that are free; with `start` the search begins there and wraps (freed ids rest)."""

    def candidates(taken: set[str]) -> Iterator[str]:
        begin = start if start is not None and first <= start <= last else first
        for number in [*range(begin, last + 1), *range(first, begin)]:
            if str(number) not in taken:
                yield str(number)

    return candidates


def _number_pools(snapshot: Snapshot, found: dict[str, Network]) -> Iterator[Pool]:
    nodes = {node.name: node.key for node in snapshot.of_kind("Node")}
    start = snapshot.cursors.get("node-id", NODE_IDS[0])
    yield Pool("node-id", nodes, _numbers(*NODE_IDS, start), "node ids", round_robin=True)
    users = {network.name: network.object_key for network in found.values() if not network.is_default}
    yield Pool(
        "network-id",
        users,
        _numbers(*NETWORK_IDS, snapshot.cursors.get("network-id", 1)),
        "network ids",
        round_robin=True,
    )
    routed = {network.name: network.object_key for network in found.values() if network.is_transit_routed}
    start = snapshot.cursors.get("tunnel-key", DYNAMIC_TUNNEL_KEYS[0])
    yield Pool(
        "tunnel-key", routed, _numbers(*DYNAMIC_TUNNEL_KEYS, start), "tunnel keys of transit routers", round_robin=True
    )


def _host_subnet_pools(snapshot: Snapshot, found: dict[str, Network]) -> Iterator[Pool]:
    nodes = {node.name: node.key for node in snapshot.of_kind("Node")}
    for network in found.values():
        if network.topology != "Layer3":
            continue
        for number in network.families:
            owners = dict(nodes) if network.is_default else dict.fromkeys(nodes, network.object_key)
            cidrs = [subnet for subnet in network.subnets if family(subnet["cidr"]) == number]
            holds = f"host subnets in {', '.join(subnet['cidr'] for subnet in cidrs)}"
            yield Pool(host_subnet_pool(network.name, number), owners, _subnets(cidrs), holds)


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
    for workload in snapshot.of_kind("Workload"):
        owner = f"{workload.namespace}/{workload.name}"
        for network in [found[DEFAULT_NETWORK], *serving.get(workload.namespace, [])]:
            for subnet in workload_subnets(snapshot, network, node_of(workload)):
                name = address_pool(network.name, subnet)
                pool = pools.setdefault(name, _address_pool(name, network, subnet))
                pool.owners[owner] = workload.key
            if network.topology == "Layer2":
                _tunnel_ids(pools, network)[owner] = workload.key
    for network in found.values() if is_open(snapshot) else ():
        if network.is_transit_routed:
            for node in snapshot.of_kind("Node"):
                _tunnel_ids(pools, network)[gateway_router_owner(node.name)] = network.object_key
    yield from pools.values()


def _tunnel_ids(pools: dict[str, Pool], network: Network) -> dict[str, str]:
    name = tunnel_id_pool(network.name)
    return pools.setdefault(name, Pool(name, {}, _numbers(*PORT_TUNNEL_IDS), f"port tunnel ids of {network.name}")).owners


def _address_pool(name: str, network: Network, subnet: str) -> Pool:
    reserved = {nth_address(subnet, GATEWAY_OFFSET), nth_address(subnet, MANAGEMENT_OFFSET)}
    holes = network.excluded + network.reserved + network.infrastructure
    excluded = [hole for hole in holes if overlapping(hole, subnet)]
    return Pool(
        name, {}, lambda taken: free_addresses(subnet, taken | reserved, excluded), f"free addresses in {subnet}"
    )


def transit_subnets(network: Network, settings: dict, others: list[str]) -> list[str]:
    """Return the transit subnets of a Layer2 primary network, one per family of its subnets.

    The configured ones, moved on past whatever of `others` they overlap (OKEP-5094, "Transit subnet conflict", as
    ovn-kubernetes does it: at most ten moves). ValueError when none is found.
    """
    chosen = []
    for candidate in settings["transit_subnets"]:
        if family(candidate) not in network.families:
            continue
        moved = network_of(candidate)
        for _attempt in range(TRANSIT_ATTEMPTS + 1):
            clash = next((other for other in others if overlapping(str(moved), other)), None)
            if clash is None:
                break
            larger = min(moved, network_of(clash), key=lambda subnet: subnet.prefixlen)
            step = 1 << (moved.max_prefixlen - moved.prefixlen)
            after = int(larger[-1]) + 1
            moved = type(moved)((-(-after // step) * step, moved.prefixlen))
        else:
            raise ValueError(f"no transit subnet beside {', '.join(others)} within {TRANSIT_ATTEMPTS} attempts")
        chosen.append(str(moved))
    return chosen
