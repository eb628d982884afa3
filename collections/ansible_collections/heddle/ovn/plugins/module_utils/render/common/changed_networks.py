# SPDX-License-Identifier: Apache-2.0
"""The networks of a host that change by endpoints of Services, members of policies, egress addresses and workloads.

By nothing else, so that all other rows are as before.
"""

from __future__ import annotations

from .moving import UNANNOUNCED
from .node_network import is_mesh, is_on

# Parts of a plan that say nothing about the topology; all but the workloads are by network.
BY_NETWORK = ("services", "headless", "policies", "egress_services")
_PARTS = {"workloads", "egress_ips", *BY_NETWORK}
# Of no consequence for rows.
_OTHERS = {"digest", "revision", UNANNOUNCED}


def changed_networks(former: dict, plan: dict, node: str) -> frozenset[str] | None:
    """Return them; None where the plans differ in anything else, so that rows of any network may."""
    others = (former.keys() | plan.keys()) - _PARTS - _OTHERS
    if any(former.get(part) != plan.get(part) for part in others) or node not in plan["nodes"]:
        return None
    found = {network for part in BY_NETWORK for network in differing_names(former.get(part, {}), plan.get(part, {}))}
    for name in differing_names(former["workloads"], plan["workloads"]):
        for workloads in (former["workloads"], plan["workloads"]):
            found |= {one["network"] for one in workloads.get(name, {}).get("interfaces", ())}
    for name in differing_names(former["egress_ips"], plan["egress_ips"]):
        found |= {network for one in (former, plan) for network in one["egress_ips"].get(name, {}).get("workloads", ())}
    networks = plan["networks"]
    return frozenset(
        name for name in found if name in networks and is_on(networks[name], node) and not is_mesh(networks[name])
    )


def differing_names(before: dict, after: dict) -> set[str]:
    """Return the names whose entries differ between two parts of plans."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
