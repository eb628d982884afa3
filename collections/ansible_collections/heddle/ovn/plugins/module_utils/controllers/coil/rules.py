# SPDX-License-Identifier: Apache-2.0
"""What is refused about address pools: ranges that something else has, blocks that cannot be reserved.

Coil's own webhooks accept overlaps; here every address is routed in the same table, so that one of both would win.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator

from ...api import POOL_ANNOTATION
from ...common.addressing import host_route, overlapping, plain
from ...common.naming import PRIMARY_NETWORK_LABEL
from ...store import coil_settings
from ...store.settings import shared_ranges
from ...store.snapshot import Snapshot, StoredObject
from .membership import BLOCK, POOL, blocks, pools_of_namespaces, reserved_blocks
from .pool_space import PoolSpace

# Object key, field, rule, remedy.
Refusal = tuple[str, str, str, str]
_NETWORK_KINDS = ("UserDefinedNetwork", "ClusterUserDefinedNetwork", "MeshNetwork")


def check_pools(before: Snapshot, after: Snapshot) -> Iterator[Refusal]:
    """Return everything about pools that makes the change impossible."""
    for namespace in after.of_kind("Namespace"):
        if namespace.spec.get("pool") and PRIMARY_NETWORK_LABEL in namespace.labels:
            yield (namespace.key, "metadata.annotations", f"{POOL_ANNOTATION} is for namespaces without the label "
                   f"{PRIMARY_NETWORK_LABEL}", "remove the annotation, or use another namespace")  # fmt: skip
    for field, name in coil_settings.named_nodes(after.settings.get(coil_settings.SETTING, {})):
        if f"Node/{name}" not in after.objects:
            yield "Settings", f"coil.{field}", f"{name} is no host of the group heddle_nodes", "correct or remove it"
    pools = after.of_kind(POOL)
    if pools:
        yield from _overlaps(pools, before, after)
        yield from _secondary_networks(after)
    yield from _reservations(before, after)


def _overlaps(pools: list[StoredObject], before: Snapshot, after: Snapshot) -> Iterator[Refusal]:
    taken, hosts = list(_taken(after)), _subnets_of_hosts(after)
    applied = {(pool.key, text) for pool in before.of_kind(POOL) for _path, text in _subnets(pool)}
    owned = [(pool, path, text) for pool in pools for path, text in _subnets(pool)]
    for (pool, path, text), (other, _path, second) in itertools.combinations(owned, 2):
        if overlapping(text, second):
            where = "the same pool" if other is pool else f"{POOL} {other.name}"
            yield pool.key, path, f"{text} overlaps with {second} of {where}", "choose other subnets"
    for pool, path, text in owned:
        # A subnet of a host may come later, as with a further NIC; what is applied stays, as networks do.
        for what, second in taken if (pool.key, text) in applied else (*taken, *hosts):
            if overlapping(text, second):
                yield pool.key, path, f"{text} overlaps with {plain_host(second)}, {what}", "choose other subnets"


def _subnets(pool: StoredObject) -> Iterator[tuple[str, str]]:
    """Yield the field and the text of each subnet of a pool."""
    for number, entry in enumerate(pool.spec["subnets"]):
        for name, text in sorted(entry.items()):
            yield f"spec.subnets[{number}].{name}", text


def plain_host(subnet: str) -> str:
    """Return a subnet of one address as that address, any other as it is."""
    return plain(subnet) if subnet == host_route(subnet) else subnet


def _taken(after: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield what else has addresses, each with its range."""
    for name, text in shared_ranges(after.settings):
        yield f"the setting {name}", text
    for node in after.of_kind("Node"):
        gateway = node.spec.get("gateway") or {}
        own = [*node.spec.get("encap_ips", ()), *node.spec.get("addresses", ()), *gateway.get("addresses", ())]
        for address in own:
            yield f"an address of node {node.name}", host_route(address)
        for address in gateway.get("next_hops", ()):
            yield f"the default gateway of node {node.name}", host_route(address)
    for entry in after.of_kind("LoadBalancerPool"):
        for text in entry.spec["subnets"]:
            yield f"a subnet of LoadBalancerPool {entry.name}", text
    for entry in after.of_kind("EgressIP"):
        for address in entry.spec["egressIPs"]:
            yield f"an address of EgressIP {entry.name}", host_route(address)
    for network in after.of_kind(*_NETWORK_KINDS):
        for subnet in network.spec["subnets"] if network.spec["topology"] != "Localnet" else ():
            yield f"a subnet of {network.key}", subnet["cidr"]


def _subnets_of_hosts(after: Snapshot) -> list[tuple[str, str]]:
    """Return the subnets of the NICs of hosts, each of them once: others in them have addresses too."""
    found: dict[str, str] = {}
    for node in after.of_kind("Node"):
        gateway = node.spec.get("gateway") or {}
        nics = {gateway.get("bridge"): gateway.get("addresses", ()), **(node.spec.get("other_addresses") or {})}
        for nic, addresses in nics.items():
            for address in addresses:
                subnet = ipaddress.ip_interface(address).network
                if subnet.num_addresses > 1:
                    found.setdefault(str(subnet), f"the subnet of {nic} on node {node.name}")
    return [(what, subnet) for subnet, what in found.items()]


def _secondary_networks(after: Snapshot) -> Iterator[Refusal]:
    """Workloads with an address of a pool have no other interface."""
    chosen = pools_of_namespaces(after)
    for workload in after.of_kind("Workload"):
        if workload.namespace in chosen and workload.spec.get("networks"):
            yield (workload.key, "metadata.annotations",
                   f"selects networks, and namespace {workload.namespace} has the pool {chosen[workload.namespace]}: "
                   "a workload with an address of a pool has no other interface yet",
                   "remove the annotation, or use another namespace")  # fmt: skip


def _reservations(before: Snapshot, after: Snapshot) -> Iterator[Refusal]:
    holders: dict[tuple[str, int], str] = {}
    nodes = {node.name for node in after.of_kind("Node")}
    given = {(block.pool, block.index): block.node for block in blocks(before)}
    known = {(entry.spec["pool"], entry.spec["index"]) for entry in reserved_blocks(before)}
    for entry in reserved_blocks(after):
        name, index = entry.spec["pool"], entry.spec["index"]
        pool = after.objects.get(f"{POOL}/{name}")
        if pool is None:
            yield entry.key, "metadata.labels", f"{POOL} {name} does not exist", "add its manifest"
            continue
        space = PoolSpace.of(pool.spec)
        if index >= space.block_count:
            yield entry.key, "index", f"{index} is beyond the {space.block_count} blocks of {name}", "see its subnets"
            continue
        yield from _differences(entry, space.block(index))
        other = holders.setdefault((name, index), entry.key)
        if other != entry.key:
            yield entry.key, "index", f"block {index} of {name} is reserved by {other}", "leave one of them out"
        elif (name, index) in given and (name, index) not in known and given[name, index] in nodes:
            rule = f"block {index} of {name} is in use on node {given[name, index]}"
            yield entry.key, "index", rule, f"remove the workloads with addresses of it, see {BLOCK}/{name}-{index}"


def _differences(entry: StoredObject, block: dict[str, str]) -> Iterator[Refusal]:
    for name in ("ipv4", "ipv6"):
        text = entry.spec.get(name)
        if text is not None and text != block.get(name):
            there = block.get(name, "no such subnet")
            yield entry.key, name, f"{text} is not block {entry.spec['index']} of the pool: {there}", f"write {there}"
