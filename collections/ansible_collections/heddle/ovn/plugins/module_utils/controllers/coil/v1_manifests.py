# SPDX-License-Identifier: Apache-2.0
"""Manifests that import the pools, blocks and addresses of Coil v1 (Coil v2, "Upgrading from v1").

Blocks of a host whose pods still run are reserved, named as Coil's own converter names them. On a host that was
replaced, each pod is a workload that names the address of the pod.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ...api import NODE_LABEL, POOL_ANNOTATION, POOL_LABEL, RESERVED_LABEL
from ...api.coil.coil_v1 import V1Address, V1Block, V1State
from ...common.addressing import overlapping
from .membership import BLOCK, POOL
from .pool_space import PoolSpace

_COIL = "coil.cybozu.com/v2"


@dataclass
class Conversion:
    """`documents` are manifests; `waiting` and `replaced` pods by host; `skipped` blocks that nothing uses."""

    documents: list[dict] = field(default_factory=list)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    replaced: dict[str, list[str]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def convert(state: V1State, nodes: Collection[str], replaced: Collection[str], *, namespaces: bool) -> Conversion:
    """Return the manifests for a dump; `nodes` are the hosts of the inventory, `replaced` those without Coil v1."""
    result = Conversion()
    for name in sorted(set(replaced) - set(nodes)):
        result.problems.append(f"replaced: {name} is no host of the inventory; name hosts of the group heddle_nodes")
    spaces = {name: PoolSpace.of(spec) for name, spec in state.pools.items()}
    owned = [(one, _holder(one, state.blocks)) for one in sorted(state.addresses)]
    result.problems += _mistakes(owned, nodes)
    result.documents += [_document(POOL, name, spec=spec) for name, spec in sorted(state.pools.items())]
    if namespaces:
        pools = {one.namespace: block.pool for one, block in owned if block}
        # Coil v1 has a pool for the namespace of its name.
        result.documents += [_namespace(name, pool) for name, pool in sorted(pools.items())]
    used = {block for _one, block in owned}
    for block in sorted(state.blocks):
        if block.pool not in spaces or (block.node not in nodes and block not in used):
            result.skipped.append(f"{block.cidr} of pool {block.pool} on {block.node}")
        elif block.node not in replaced:
            _reserve(block, spaces[block.pool], result)
    for one, block in owned:
        if block:
            done = block.node in replaced
            found = result.replaced if done else result.waiting
            found.setdefault(block.node, []).append(f"{one.namespace}/{one.pod}")
            result.documents += [_workload(one, block.node)] if done else []
    return result


def _holder(one: V1Address, blocks: list[V1Block]) -> V1Block | None:
    return next((block for block in blocks if overlapping(one.address, block.cidr)), None)


def _mistakes(owned: list[tuple[V1Address, V1Block | None]], nodes: Collection[str]) -> list[str]:
    found, pools, seen = [], {}, {}
    for one, block in owned:
        pod = f"pod {one.namespace}/{one.pod}"
        other = seen.setdefault((one.namespace, one.pod), one.address)
        if other != one.address:
            found.append(f"{pod}: has {other} and {one.address}; free the one that it does not use, and dump again")
        if block is None:
            found.append(f"{pod}: {one.address} is in no block of a node; free it with coilctl, and dump again")
            continue
        if block.node not in nodes:
            found.append(f"{pod}: node {block.node} is not in the inventory; add it to the group heddle_nodes")
        pool = pools.setdefault(one.namespace, block.pool)
        if pool != block.pool:
            found.append(
                f"{pod}: {one.address} is of pool {block.pool}, others of the namespace are of {pool}; make the pod "
                "anew in Coil v1, and dump again"
            )
    return found


def _reserve(block: V1Block, space: PoolSpace, result: Conversion) -> None:
    number = space.number_of(block.cidr.partition("/")[0])
    index = None if number is None else number >> space.bits
    if index is None or space.block(index)["ipv4"] != block.cidr:
        rule = f"{block.cidr} of {block.node} cannot exist in pool {block.pool}"
        result.problems.append(f"block/{block.pool}: {rule}; correct it with coilctl, and dump again")
        return
    labels = {POOL_LABEL: block.pool, NODE_LABEL: block.node, RESERVED_LABEL: "true"}
    reserved = _document(BLOCK, f"{block.pool}-{index}-v1", labels=labels)
    result.documents.append({**reserved, "index": index, "ipv4": block.cidr})


def _document(kind: str, name: str, *, labels: dict | None = None, spec: dict | None = None) -> dict:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": _COIL, "kind": kind, "metadata": metadata, **({"spec": spec} if spec else {})}


def _namespace(name: str, pool: str) -> dict:
    metadata = {"name": name, "annotations": {POOL_ANNOTATION: pool}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _workload(one: V1Address, node: str) -> dict:
    return {
        "apiVersion": "heddle.dev/v1",
        "kind": "Workload",
        "metadata": {"name": one.pod, "namespace": one.namespace},
        "spec": {"node": node, "addresses": [one.address]},
    }
