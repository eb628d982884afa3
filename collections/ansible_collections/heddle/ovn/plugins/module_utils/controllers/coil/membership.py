# SPDX-License-Identifier: Apache-2.0
"""Which namespaces have their addresses of which pool, and the names under which blocks and addresses are stored.

Coil v2, "Choosing the pool": the annotation of the namespace names it. Without one a namespace has the pool `default`
when the setting `default_network` says `coil` or hosts have no OVN, and otherwise OVN's default network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...api import DEFAULT_POOL
from ...common.naming import PRIMARY_NETWORK_LABEL
from ...store.settings import DEFAULT_NETWORK_KIND, OVN
from ...store.snapshot import Snapshot, StoredObject

POOL, BLOCK, REQUEST = "AddressPool", "AddressBlock", "BlockRequest"
_BLOCKS, _ADDRESSES = "address-block/", "pool-address/"


@dataclass(frozen=True, order=True)
class Block:
    """A block of a pool that a node has."""

    pool: str
    index: int
    node: str


def pool_of(namespace: StoredObject, settings: dict) -> str | None:
    """Return the pool of a namespace's workloads; None where they are on OVN's default network."""
    named = namespace.spec.get("pool")
    is_default = settings.get(DEFAULT_NETWORK_KIND) == "coil" or not settings.get(OVN, True)
    if named or not is_default or PRIMARY_NETWORK_LABEL in namespace.labels:
        return named
    return DEFAULT_POOL


def pools_of_namespaces(snapshot: Snapshot) -> dict[str, str]:
    """Return the pool of each namespace that has one."""
    found = ((entry.name, pool_of(entry, snapshot.settings)) for entry in snapshot.of_kind("Namespace"))
    return {name: pool for name, pool in found if pool}


def block_pool(pool: str) -> str:
    """Name of the allocations of a pool's blocks: owner `NODE/INDEX`, value INDEX."""
    return f"{_BLOCKS}{pool}"


def address_numbers(pool: str) -> str:
    """Name of the allocations of a pool's addresses: owner `NAMESPACE/WORKLOAD`, value the address's number."""
    return f"{_ADDRESSES}{pool}"


def cursor(block: Block) -> str:
    """Name of the cursor with the place in a block that was given last."""
    return f"{_BLOCKS}{block.pool}/{block.index}"


def block_owner(block: Block) -> str:
    """Return the name of a block as an owner in allocations."""
    return f"{block.node}/{block.index}"


def blocks(snapshot: Snapshot) -> Iterator[Block]:
    """Yield the blocks of all pools, reserved ones included, ordered by pool and index."""
    for name in sorted(snapshot.allocations):
        if name.startswith(_BLOCKS):
            found = (owner.rpartition("/") for owner in snapshot.allocations[name])
            pool = name.removeprefix(_BLOCKS)
            yield from sorted(Block(pool, int(index), node) for node, _slash, index in found)


def reserved_blocks(snapshot: Snapshot) -> list[StoredObject]:
    """Return the blocks that manifests reserve (Coil v2, "Upgrading from v1")."""
    return [entry for entry in snapshot.of_kind(BLOCK) if entry.manifest]


def why_it_lacks_a_pool(snapshot: Snapshot, workload: StoredObject) -> tuple[str, str] | None:
    """Return reason and message for a workload whose namespace names a pool that does not exist."""
    pool = pool_of(snapshot.objects[f"Namespace/{workload.namespace}"], snapshot.settings)
    if pool is None or f"{POOL}/{pool}" in snapshot.objects:
        return None
    return (
        "AddressPoolNotFound",
        f"namespace {workload.namespace} has its addresses of pool {pool}, which does not exist",
    )
