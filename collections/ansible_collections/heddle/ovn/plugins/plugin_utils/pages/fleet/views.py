# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names and addresses of a network's routers and switches, as hosts have them, for its picture."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.common import naming
from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import plain
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import (
    NodeNetwork,
    is_mesh,
    nodes_of,
)

# Hosts that a picture shows; the others are counted.
MOST_HOSTS = 4


def network_names(name: str, network: dict) -> dict[str, str]:
    """Return the names of what a network has once."""
    if network["topology"] == "Layer2":
        return {"switch": naming.layer2_switch(name), "transit": naming.transit_router(name)}
    if network["topology"] == "Layer3":
        return {"transit": naming.transit_switch(name), "router": naming.cluster_router(name)}
    return {"switch": naming.localnet_switch(name)}


def node_views(plan: dict, name: str) -> dict[str, dict]:
    """Return, for the hosts that the picture shows, the host's names and addresses in a network."""
    network = plan["networks"][name]
    found = {}
    for node in nodes_of(plan, name)[:MOST_HOSTS]:
        view = {"gateway_router": "", "join": [], "transit": [], "switch": "", "gateways": []}
        # Settings have no part in what is asked here.
        seen = NodeNetwork({**plan, "settings": {}}, name, node, [])
        if network["role"] == "Primary" and not is_mesh(network):
            view["gateway_router"] = naming.gateway_router(name, node)
            view["join"] = [plain(address) for address in seen.join_interfaces()]
        if network["topology"] == "Layer3":
            view["switch"] = naming.node_switch(name, node)
            view["transit"] = [plain(address) for address in seen.transit_interfaces()]
        if network["topology"] != "Localnet" and network["subnets"]:
            view["gateways"] = seen.gateway_interfaces()
        found[node] = view
    return found
