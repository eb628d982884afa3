# SPDX-License-Identifier: Apache-2.0
"""The plan's part about address pools: blocks by node, workloads with their addresses, how hosts advertise them."""

from __future__ import annotations

from ..controllers.coil.allocation import pool_addresses
from ..controllers.coil.membership import POOL, block_pool, blocks, pools_of_namespaces, reserved_blocks
from ..controllers.coil.pool_space import PoolSpace
from ..controllers.network.networks import running_workloads
from ..controllers.workload.placement import node_of
from ..store import coil_settings
from ..store.snapshot import Snapshot
from .workload_entries import probe_of


def coil_entries(snapshot: Snapshot) -> dict:
    """Return `coil` with its content, nothing as long as there are no pools: hosts then have nothing of it."""
    pools = {pool.name: pool for pool in snapshot.of_kind(POOL)}
    if not pools:
        return {}
    kept = {(entry.spec["pool"], entry.spec["index"]) for entry in reserved_blocks(snapshot)}
    exported: dict[str, list[str]] = {}
    reserved: dict[str, list[str]] = {}
    for block in blocks(snapshot):
        described = PoolSpace.of(pools[block.pool].spec).block(block.index)
        exported.setdefault(block.node, []).extend(described.values())
        if (block.pool, block.index) in kept:
            reserved.setdefault(block.node, []).extend(described.values())
    chosen = pools_of_namespaces(snapshot)
    workloads = {
        f"{workload.namespace}/{workload.name}": {
            "node": node_of(workload),
            "namespace": workload.namespace,
            "name": workload.name,
            "pool": chosen[workload.namespace],
            "addresses": pool_addresses(snapshot, pools[chosen[workload.namespace]], workload),
            **probe_of(workload),
        }
        for workload in running_workloads(snapshot)
        if workload.namespace in chosen and workload.spec["kind"] == "netns"
    }
    subnets = [
        text for pool in pools.values() for entry in pool.spec["subnets"] for _name, text in sorted(entry.items())
    ]
    return {
        "coil": {
            "subnets": subnets,
            "pools": {
                name: {
                    "max_blocks": PoolSpace.of(pool.spec).block_count,
                    "allocated_blocks": len(snapshot.allocations.get(block_pool(name), ())),
                }
                for name, pool in sorted(pools.items())
            },
            "blocks": exported,
            **({"reserved": reserved} if reserved else {}),
            "workloads": workloads,
            "routing": coil_settings.complete(snapshot.settings.get(coil_settings.SETTING, {})),
        }
    }
