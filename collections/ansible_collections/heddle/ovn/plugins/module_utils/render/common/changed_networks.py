# SPDX-License-Identifier: Apache-2.0
"""The networks of a host that differ between two plans, where rows of all other networks are as before.

They differ by endpoints of Services, members of policies, egress addresses and workloads, or are in one of the plans
only. What else differs may be of any network.
"""

from __future__ import annotations

from .moving import UNANNOUNCED
from .node_network import is_mesh, is_on

# Parts of a plan that say nothing about the topology; all but the workloads are by network.
BY_NETWORK = ("services", "headless", "policies", "egress_services")
_PARTS = {"workloads", "egress_ips", *BY_NETWORK}
# Parts by network, whose entries may come and go with the networks.
_WITH_NETWORKS = ("networks", "egress_firewalls")
# Of no consequence for rows.
_OTHERS = {"digest", "revision", UNANNOUNCED}


def changed_networks(former: dict, plan: dict, node: str) -> frozenset[str] | None:
    """Return them; None where the plans differ in anything else, so that rows of any network may."""
    others = (former.keys() | plan.keys()) - _PARTS - _OTHERS - set(_WITH_NETWORKS)
    if any(former.get(part) != plan.get(part) for part in others) or node not in plan["nodes"]:
        return None
    found = set(former["networks"].keys() ^ plan["networks"].keys())
    if any(not differing_names(former.get(part, {}), plan.get(part, {})) <= found for part in _WITH_NETWORKS):
        return None
    found |= differing_in_parts(former, plan)
    for name in differing_names(former["workloads"], plan["workloads"]):
        for workloads in (former["workloads"], plan["workloads"]):
            found |= {one["network"] for one in workloads.get(name, {}).get("interfaces", ())}
    return frozenset(
        name for name in found if any(_has_rows(one["networks"].get(name), node) for one in (former, plan))
    )


def differing_in_parts(former: dict, plan: dict) -> set[str]:
    """Return the networks whose Services, policies or egress addresses differ between two plans."""
    found = {network for part in BY_NETWORK for network in differing_names(former.get(part, {}), plan.get(part, {}))}
    for name in differing_names(former["egress_ips"], plan["egress_ips"]):
        found |= {network for one in (former, plan) for network in one["egress_ips"].get(name, {}).get("workloads", ())}
    return found


def _has_rows(network: dict | None, node: str) -> bool:
    return network is not None and is_on(network, node) and not is_mesh(network)


def differing_names(before: dict, after: dict) -> set[str]:
    """Return the names whose entries differ between two parts of plans."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
