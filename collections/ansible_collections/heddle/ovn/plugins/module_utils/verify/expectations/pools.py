# SPDX-License-Identifier: Apache-2.0
"""Workloads with an address of a pool, as if all pools were one network of the plan: they reach each other. Pure.

Coil v2 has no isolation between pools. What is on OVN's networks is another network.
"""

from __future__ import annotations

from ...common.addressing import family
from ...common.naming import ADDRESS_POOLS
from ...types.egress_nat import UPLINK

POOLS = ADDRESS_POOLS


def with_pools(plan: dict) -> dict:
    """Return the plan with these workloads among its workloads, on a network named POOLS; itself without any."""
    routed = plan.get("coil", {}).get("workloads")
    if not routed or POOLS in plan["networks"]:
        return plan
    network = {
        "topology": "Routed",
        "families": sorted(set(map(family, plan["coil"]["subnets"]))),
        "subnets": plan["coil"]["subnets"],
    }
    workloads = {
        name: {
            "node": one["node"],
            "namespace": one["namespace"],
            "name": one["name"],
            "kind": "netns",
            "interfaces": [
                {"name": UPLINK, "network": POOLS, "role": "primary", "addresses": one["addresses"], "routes": []}
            ],
        }
        for name, one in routed.items()
    }
    return {
        **plan,
        "networks": {**plan["networks"], POOLS: network},
        "workloads": {**plan["workloads"], **workloads},
    }


def without_pools(plan: dict) -> dict:
    """Return the plan without what `with_pools` has added."""
    if POOLS not in plan["networks"]:
        return plan
    routed = plan["coil"]["workloads"]
    return {
        **plan,
        "networks": {name: one for name, one in plan["networks"].items() if name != POOLS},
        "workloads": {name: one for name, one in plan["workloads"].items() if name not in routed},
    }


def is_undecided(plan: dict, source: str, target: str) -> bool:
    """Return whether a router may lead from a workload on OVN's networks to one with an address of a pool.

    Its packets leave by the gateway of its node like any other, and where a router knows the blocks they arrive.
    """
    routed = plan.get("coil", {}).get("workloads", {})
    return target in routed and source not in routed and bool(plan["coil"]["routing"]["routers"])
