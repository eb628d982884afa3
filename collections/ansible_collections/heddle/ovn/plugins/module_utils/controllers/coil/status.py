# SPDX-License-Identifier: Apache-2.0
"""Writes the objects that follow from the allocations (blocks, requests) and the status of pools; removes pools.

Coil v2, "Custom Resource Definitions" and "Garbage Collection": a pool that is being deleted stays until its last block
is released.
"""

from __future__ import annotations

from collections import Counter

from ...api import NODE_LABEL, POOL_LABEL
from ...store.snapshot import Snapshot, StoredObject
from ..conditions import FALSE, TRUE, WORKLOAD_READY, condition, described, with_conditions
from ..workload.placement import node_of
from .membership import (
    BLOCK,
    POOL,
    REQUEST,
    Block,
    address_numbers,
    block_pool,
    blocks,
    pools_of_namespaces,
    reserved_blocks,
)
from .pool_space import PoolSpace

READY = "Ready"
COMPLETE, FAILED = "Complete", "Failed"


def update_pools(before: Snapshot, after: Snapshot, now: str) -> None:
    """Set blocks, requests and the status of pools in a snapshot whose allocations are complete."""
    if not (after.of_kind(POOL) or before.of_kind(POOL)):
        return
    for pool in after.of_kind(POOL):
        if pool.is_deleting and not after.allocations.get(block_pool(pool.name)):
            del after.objects[pool.key]
            for name in (block_pool(pool.name), address_numbers(pool.name)):
                after.allocations.pop(name, None)
    waiting = _waiting(after)
    _update_blocks(before, after, now)
    _update_requests(before, after, waiting, now)
    for pool in after.of_kind(POOL):
        count = sum(number for (name, _node), number in waiting.items() if name == pool.name)
        after.objects[pool.key] = _with_status(pool, after, count, now)


def _waiting(snapshot: Snapshot) -> Counter[tuple[str, str]]:
    """Count the workloads that wait for an address, by pool and node."""
    chosen = pools_of_namespaces(snapshot)
    return Counter(
        (chosen[workload.namespace], node_of(workload))
        for workload in snapshot.of_kind("Workload")
        if workload.namespace in chosen and condition(workload, WORKLOAD_READY)["reason"] == "AllocationFailed"
    )


def _update_blocks(before: Snapshot, after: Snapshot, now: str) -> None:
    for entry in after.of_kind(BLOCK):
        if not entry.manifest:
            del after.objects[entry.key]
    reserved = {(entry.spec["pool"], entry.spec["index"]) for entry in reserved_blocks(after)}
    for block in blocks(after):
        if (block.pool, block.index) not in reserved:
            entry = _block(block, PoolSpace.of(after.objects[f"{POOL}/{block.pool}"].spec))
            known = before.objects.get(entry.key)
            created = known.status["creationTimestamp"] if known and known.labels == entry.labels else now
            after.objects[entry.key] = entry.with_status(creationTimestamp=created)


def _block(block: Block, space: PoolSpace) -> StoredObject:
    return StoredObject(
        kind=BLOCK,
        name=f"{block.pool}-{block.index}",
        labels={POOL_LABEL: block.pool, NODE_LABEL: block.node},
        spec={"index": block.index, "pool": block.pool, "node": block.node, **space.block(block.index)},
    )


def _update_requests(before: Snapshot, after: Snapshot, waiting: Counter, now: str) -> None:
    """A node has at most one request for a pool: the last one, as long as it has blocks of it or waits for one."""
    known = {
        *blocks(before),
        *(Block(one.spec["pool"], one.spec["index"], one.spec["node"]) for one in reserved_blocks(after)),
    }
    got: dict[tuple[str, str], Block] = {}
    own: dict[tuple[str, str], list[Block]] = {}
    for block in blocks(after):
        own.setdefault((block.pool, block.node), []).append(block)
        if block not in known:
            got[block.pool, block.node] = block
    for entry in after.of_kind(REQUEST):
        key = entry.spec["poolName"], entry.spec["nodeName"]
        failed = condition(entry, FAILED) is not None
        if key not in own or (failed and key not in waiting):
            del after.objects[entry.key]
    for key in sorted({*got, *waiting}):
        pool, node = key
        if f"{POOL}/{pool}" not in after.objects:
            continue
        request = StoredObject(
            kind=REQUEST, name=f"req-{pool}-{node}", spec={"nodeName": node, "poolName": pool},
            status={"creationTimestamp": now},
        )  # fmt: skip
        request = before.objects.get(request.key, request)
        if key in waiting:
            found = [
                described(COMPLETE, TRUE, "completed with failure", f"{waiting[key]} workloads wait for an address"),
                described(FAILED, TRUE, "out of blocks", f"pool {pool} has no free block"),
            ]
            name = None
        else:
            name = f"{pool}-{got[key].index}"
            found = [described(COMPLETE, TRUE, "allocated", f"block {name}")]
        after.objects[request.key] = with_conditions(request.with_status(addressBlockName=name), found, now)


def _with_status(pool: StoredObject, snapshot: Snapshot, waiting: int, now: str) -> StoredObject:
    space = PoolSpace.of(pool.spec)
    held = len(snapshot.allocations.get(block_pool(pool.name), ()))
    given = len(snapshot.allocations.get(address_numbers(pool.name), ()))
    usage = (
        f"{held} of {space.block_count} blocks of {space.block_size} addresses are on nodes, {given} workloads have an "
        "address"
    )
    if waiting:
        ready = described(READY, FALSE, "OutOfBlocks", f"{waiting} workloads wait for an address: {usage}")
    elif pool.is_deleting:
        ready = described(READY, FALSE, "Deleting", f"waits for its blocks: {usage}")
    else:
        ready = described(READY, TRUE, "BlocksAvailable" if held < space.block_count else "AllBlocksTaken", usage)
    updated = pool.with_status(maxBlocks=space.block_count, allocatedBlocks=held, allocatedAddresses=given)
    return with_conditions(updated, [ready], now)
