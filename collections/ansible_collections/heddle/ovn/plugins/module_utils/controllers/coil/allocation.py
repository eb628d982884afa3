# SPDX-License-Identifier: Apache-2.0
"""Gives blocks of pools to nodes, and addresses of these blocks to workloads.

Coil v2, "Address blocks" and "Garbage Collection": a workload keeps its address; one without has the next one of a
block of its node. A node without a free address gets the first free block of the pool. A block without addresses is
released, and so is that of a node that is no longer in the inventory. Reserved blocks stay as they are.

A workload may name its addresses, as those that were imported from Coil v1 do; it gets them before others get any.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...store.snapshot import Snapshot, StoredObject
from ..allocation.pools import AllocationFailure
from ..network.networks import running_workloads
from ..workload.placement import node_of
from .membership import (
    POOL,
    Block,
    address_numbers,
    block_owner,
    block_pool,
    blocks,
    cursor,
    pools_of_namespaces,
    reserved_blocks,
)
from .pool_space import PoolSpace, first_fit, next_fit


def allocate_pools(snapshot: Snapshot) -> tuple[set[str], list[AllocationFailure]]:
    """Update blocks and addresses to the workloads; return the names of what is allocated, and the failures."""
    pools = snapshot.of_kind(POOL)
    claims: dict[str, list[StoredObject]] = {pool.name: [] for pool in pools}
    chosen = pools_of_namespaces(snapshot) if pools else {}
    for workload in running_workloads(snapshot) if pools else ():
        if chosen.get(workload.namespace) in claims:
            claims[chosen[workload.namespace]].append(workload)
    nodes = {node.name for node in snapshot.of_kind("Node")}
    there = [block for block in blocks(snapshot) if block.node in nodes]
    wanted: set[str] = set()
    failures: list[AllocationFailure] = []
    for pool in pools:
        own = [block for block in there if block.pool == pool.name]
        allocating = _Allocating(snapshot, pool, own)
        failures += allocating.serve(claims[pool.name])
        wanted |= allocating.store()
    return wanted, failures


class _Allocating:
    """One pass over a pool. `taken` has the numbered places of each block that are in use."""

    def __init__(self, snapshot: Snapshot, pool: StoredObject, own: Iterable[Block]) -> None:
        self._snapshot, self._pool = snapshot, pool
        self._space = PoolSpace.of(pool.spec)
        fixed = [entry.spec for entry in reserved_blocks(snapshot) if entry.spec["pool"] == pool.name]
        self._reserved = {entry["index"]: entry["node"] for entry in fixed}
        self._taken: dict[int, set[int]] = {}
        self._last: dict[int, int] = {}
        self._of_node: dict[str, list[int]] = {}
        self._node_of: dict[int, str] = {}
        # The blocks of a node before these are full, so that serving many workloads takes linear time.
        self._full: dict[str, int] = {}
        for block in own:
            if block.index not in self._reserved and block.index < self._space.block_count:
                self._add(block.index, block.node, snapshot.cursors.get(cursor(block), -1))
        self._held: dict[str, int] = {}

    def _add(self, index: int, node: str, last: int) -> None:
        self._taken[index], self._last[index] = set(), last
        self._of_node.setdefault(node, []).append(index)
        self._node_of[index] = node

    def serve(self, workloads: list[StoredObject]) -> list[AllocationFailure]:
        """Give each workload its address: the one it has or names, else of a block of its node, else of a new block."""
        held = self._snapshot.allocations.get(address_numbers(self._pool.name), {})
        waiting = [workload for workload in workloads if not self._keep(workload, held)]
        named = [(workload, self._give_named(workload)) for workload in waiting if workload.spec.get("addresses")]
        failures = [(workload.key, *refusal) for workload, refusal in named if refusal]
        waiting = [workload for workload in waiting if not workload.spec.get("addresses")]
        return failures + self._serve_any(waiting)

    def _serve_any(self, waiting: list[StoredObject]) -> list[AllocationFailure]:
        waiting = [workload for workload in waiting if not self._give(workload)]
        free = self._free_blocks() if waiting else iter(())
        missing = [workload for workload in waiting if not self._give(workload) and not self._extend(workload, free)]
        return [(workload.key, *self._exhausted(node_of(workload))) for workload in missing]

    def _keep(self, workload: StoredObject, held: dict[str, str]) -> bool:
        number = held.get(_owner(workload))
        if number is None or not set(workload.spec.get("addresses", ())) <= set(self._addresses(int(number))):
            return False
        index, place = divmod(int(number), self._space.block_size)
        if self._node_of.get(index) != node_of(workload):
            return False
        self._taken[index].add(place)
        self._held[_owner(workload)] = int(number)
        return True

    def _addresses(self, number: int) -> list[str]:
        return self._space.addresses(number) if number >> self._space.bits < self._space.block_count else []

    def _give_named(self, workload: StoredObject) -> tuple[str, str] | None:
        """Give a workload the addresses that it names; return what is wrong and the remedy if it cannot have them."""
        named, node, name = workload.spec["addresses"], node_of(workload), self._pool.name
        number = self._space.number_of(named[0])
        if number is None:
            return f"address {named[0]} is in no subnet of pool {name}", "name one of the pool, or none"
        if not set(named) <= set(found := self._addresses(number)):
            return f"asks for {' and '.join(named)}, but {' and '.join(found)} belong together", "name these, or none"
        index, place = divmod(number, self._space.block_size)
        if index in self._reserved:
            return f"address {named[0]} is in block {index} of pool {name}, which is reserved", "name another one"
        holder = self._node_of.get(index)
        if holder not in (None, node) and self._taken[index]:
            return f"address {named[0]} is in block {index} of pool {name}, which node {holder} has", f"use {holder}"
        if place in self._taken.get(index, ()):
            owner = next(owner for owner, other in self._held.items() if other == number)
            return f"address {named[0]} is that of workload {owner}", "name another one"
        if holder is None and self._pool.is_deleting:
            return self._exhausted(node)
        if holder != node:
            if holder is not None:
                self._of_node[holder].remove(index)
            self._add(index, node, -1)
        self._taken[index].add(place)
        self._held[_owner(workload)] = number
        return None

    def _give(self, workload: StoredObject) -> bool:
        node = node_of(workload)
        own = self._of_node.get(node, [])
        for position in range(self._full.get(node, 0), len(own)):
            index = own[position]
            place = next_fit(self._space.block_size, self._taken[index], self._last[index])
            if place is not None:
                self._taken[index].add(place)
                self._last[index] = place
                self._held[_owner(workload)] = index * self._space.block_size + place
                return True
            self._full[node] = position + 1
        return False

    def _free_blocks(self):
        """Return an iterator over free blocks, those without addresses included, which nodes release now.

        A pool that is being deleted has none (Coil v2, "AddressPool").
        """
        for node, own in self._of_node.items():
            self._of_node[node] = [index for index in own if self._taken[index]]
            self._full.pop(node, None)
        self._taken = {index: places for index, places in self._taken.items() if places}
        used = {*self._taken, *self._reserved}
        return iter(()) if self._pool.is_deleting else first_fit(self._space.block_count, used)

    def _extend(self, workload: StoredObject, free) -> bool:
        index = next(free, None)
        if index is None:
            return False
        self._add(index, node_of(workload), -1)
        return self._give(workload)

    def _exhausted(self, node: str) -> tuple[str, str]:
        if self._pool.is_deleting:
            return f"pool {self._pool.name} is being deleted and has no more blocks", "choose another pool"
        return (
            f"pool {self._pool.name} is out of blocks: all {self._space.block_count} of {self._space.block_size} "
            f"addresses are taken, and those of node {node} are full",
            "append a subnet to the pool, or remove workloads",
        )

    def store(self) -> set[str]:
        """Write the result into the snapshot; return the names of the allocations and cursors."""
        own = [
            Block(self._pool.name, index, node)
            for node, indexes in self._of_node.items()
            for index in indexes
            if self._taken.get(index)
        ]
        kept = [*own, *(Block(self._pool.name, index, node) for index, node in self._reserved.items())]
        self._snapshot.allocations[block_pool(self._pool.name)] = {block_owner(one): str(one.index) for one in kept}
        self._snapshot.allocations[address_numbers(self._pool.name)] = {
            owner: str(number) for owner, number in self._held.items()
        }
        cursors = {cursor(block): self._last[block.index] for block in own}
        self._snapshot.cursors |= cursors
        return {block_pool(self._pool.name), address_numbers(self._pool.name), *cursors}


def _owner(workload: StoredObject) -> str:
    return f"{workload.namespace}/{workload.name}"


def pool_addresses(snapshot: Snapshot, pool: StoredObject, workload: StoredObject) -> list[str]:
    """Return the addresses that a workload has of a pool, IPv4 first."""
    number = snapshot.get(address_numbers(pool.name), _owner(workload))
    return [] if number is None else PoolSpace.of(pool.spec).addresses(int(number))
