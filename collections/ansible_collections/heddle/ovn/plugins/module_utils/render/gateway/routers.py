# SPDX-License-Identifier: Apache-2.0
"""A network's gateway router on this node, and the path of the node's own traffic into the network.

Ports, options and numbers: ovn-kubernetes, gateway routers; OKEP-5094, "Transit router". The side of the
provider network is in `external.py`.
"""

from __future__ import annotations

from ...common.addressing import family, host_route, mac_of_address, plain
from ...common.naming import gateway_router, management_port
from ...types.ovsdb_row import Parent, Row
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import ROUTER, balanced, policy, route, router, switch_port

MANAGEMENT_POLICY_PRIORITY = 1004
# A router keeps no row in the Southbound database for each address that asked for another one, and forgets what it
# learned after 300 s without traffic (ovn-nb(5), Logical_Router). ovn-kubernetes sets both on gateway routers only.
MAC_LEARNING = {"always_learn_from_arp_request": "false", "mac_binding_age_threshold": "300"}


def gateway_router_row(view: NodeNetwork) -> Row:
    """Gateway router, bound to this node's chassis."""
    options = {
        "chassis": view.chassis(),
        **MAC_LEARNING,
        "dynamic_neigh_routers": "false",
        "lb_force_snat_ip": "router_ip",
    }
    if view.is_default:
        options["snat-ct-zone"] = "0"
    else:
        options["disable_garp_rarp"] = "true"
        if view.network["topology"] == "Layer2":
            options["lb_force_snat_ip"] = " ".join(plain(interface) for interface in view.join_interfaces())
    ids = view.external_ids(role=True)
    if view.provider:
        own = [plain(address) for address in view.provider.addresses]
        ids |= {"physical_ip": own[0], "physical_ips": ",".join(own)}
    return router(view, gateway_router(view.name, view.node), options, ids, **balanced(view))


def inner_router_options(view: NodeNetwork) -> dict:
    """Return options of the router next to the workloads.

    In local gateway mode replies arrive on another port than requests leave by: all connections are then committed, so
    that they are tracked (OVN 25.03, `ct-commit-all`).
    """
    local = view.provider is not None and view.provider.is_local and view.is_primary and not view.is_default
    return {"ct-commit-all": "true"} if local else {}


def outward_routes(
    view: NodeNetwork, on: str, gateways: list[str], sources: list[str] | None = None
) -> list[Row]:  # fmt: skip
    """Routes for external traffic of this node's workloads.

    `on` is the router next to the workloads, `gateways` the gateway router's addresses there, `sources` are prefixes
    that cover the node's subnets, if not these. In local gateway mode
    the node itself is the next hop, in shared mode only for the shared services. A node without
    VRFs has no interface in the network; there the provider bridge forwards to those services.
    """
    local = view.provider is not None and view.provider.is_local
    nexthops = view.management_addresses() if local else gateways
    rows = [
        route(view, on, subnet, nexthop, source=True)
        for subnet in sources or view.subnets()
        for nexthop in nexthops
        if family(nexthop) == family(subnet)
    ]
    if view.provider and view.provider.vrf and not local and not view.is_default:
        ids = {**view.external_ids(), "k8s.ovn.org/udn-enabled-default-service": ""}
        rows += [
            route(view, on, host_route(service), nexthop, external_ids=ids)
            for service in view.shared_services()
            for nexthop in view.management_addresses()
            if family(nexthop) == family(service)
        ]
    return rows


def management_rows(view: NodeNetwork, switch: str, on: str, inward_port: str) -> list[Row]:
    """Management port of the node, and the rules that send traffic for the node there.

    `on` is the router next to the workloads and `inward_port` its port towards them.
    """
    addresses = view.management_addresses()
    mac = mac_of_address(addresses[0])
    name = management_port(view.name, view.node)
    rows = [switch_port(view, switch, name, addresses={" ".join([mac, *addresses])})]
    for host_address in _host_addresses(view):
        version = family(host_address)
        nexthop = next((address for address in addresses if family(address) == version), None)
        if nexthop:
            match = f'inport == "{inward_port}" && ip{version}.dst == {plain(host_address)} /* {switch} */'
            rows.append(policy(view, on, MANAGEMENT_POLICY_PRIORITY, match, nexthop))
    if not view.is_default:
        rows += [
            _management_snat(view, on, subnet, inward_port, mac)
            for subnet in view.subnets()
        ]  # fmt: skip
    return rows


def _host_addresses(view: NodeNetwork) -> list[str]:
    """Return the addresses routed to the node: all of them, in user-defined networks those on the provider network.

    A gateway router has the latter as well, and drops what is for them. Without any of a family it is the first one
    elsewhere. ovn-kubernetes has the first of each family only in user-defined networks (policies 1004). A Layer3
    network adds the addresses that its own gateway router is masqueraded as.
    """
    addresses = list(view.plan["nodes"][view.node]["addresses"])
    by_provider = [plain(address) for address in view.provider.addresses] if view.provider else []
    others = [address for address in addresses if plain(address) not in by_provider]
    if view.is_default:
        return by_provider + others
    missing = {4, 6} - set(map(family, by_provider))
    first = [next((item for item in others if family(item) == version), None) for version in sorted(missing)]
    own = view.masquerade_addresses(0) if view.network["topology"] == "Layer3" else []
    return by_provider + [address for address in first if address] + own


def _management_snat(view: NodeNetwork, on: str, subnet: str, inward_port: str, mac: str) -> Row:
    """SNAT traffic to the management port, so that the node can distinguish networks with equal subnets."""
    version = family(subnet)
    external = next(address for address in view.masquerade_addresses(1) if family(address) == version)
    columns = {
        "type": "snat",
        "logical_ip": subnet,
        "external_ip": external,
        "logical_port": inward_port,
        "match": f"eth.dst == {mac}",
        "external_port_range": view.translated_ports,
        "options": {"stateless": "false"},
        "external_ids": view.external_ids(),
    }
    return Row("NAT", f"{on} snat {subnet} {external}", columns, view.name, Parent(ROUTER, on, "nat"))
