# SPDX-License-Identifier: Apache-2.0
"""The host's own side of each network: management ports, VRFs, routes, rules, masquerade addresses.

ovn-kubernetes's node plumbing (OKEP-5193, "Local Gateway Mode" and "VRF Considerations"). The default network's
management port is in the host's main table. That of every other primary network is in a VRF of its own, so that
networks with equal subnets do not conflict; a host whose kernel has no VRFs has none of those.
"""

from __future__ import annotations

from ...common.addressing import (
    family,
    host_route,
    mac_of_address,
    nth_address,
    nth_interface,
    plain,
    prefix_length,
)
from ...common.naming import INTEGRATION_BRIDGE, management_interface, management_port, vrf_name
from ...types.host_network import (
    UNREACHABLE_METRIC,
    HostAddress,
    HostLink,
    HostNetwork,
    HostRoute,
    Neighbour,
    Rule,
    Sysctl,
    Vrf,
)
from ...types.ovsdb_row import Keys, Parent, Row
from ..common.egress_ips import held_nics
from ..common.handover import announced_addresses
from ..common.node_network import NodeNetwork, is_mesh
from ..common.provider import Provider, provider_of
from ..gateway.bridge import packet_mark, primary_views
from ..gateway.external import DEFAULT_ROUTES
from .egress_nics import egress_nics
from .egress_service_rules import egress_service_routing
from .mesh_gateway import gateway_views, unreachable_subnets
from .network_rules import network_rules
from .nic_forwarding import nic_sysctls
from .vswitch import UNDERLAY_BRIDGE

# The tables of neighbours that all network namespaces of a kernel share: how many entries stay without being collected,
# how many may be there for long, and how many at all (arp(7)). Linux has 128, 512 and 1024; beyond that it drops
# packets. With a few hundred workloads, each with the neighbours of its networks, that is reached. The first limit
# comes last, so that none is above the next one meanwhile.
NEIGHBOUR_LIMITS = tuple(
    Sysctl(f"net/{family_name}/neigh/default/gc_thresh{number}", limit, minimum=True)
    for family_name in ("ipv4", "ipv6")
    for number, limit in ((3, "65536"), (2, "32768"), (1, "8192"))
)


def render_management_ports(plan: dict, node: str) -> list[Row]:
    """Return the ports of the integration bridge that are the host's own interfaces in its networks."""
    rows = [Row("Bridge", INTEGRATION_BRIDGE, {}, match={"name": INTEGRATION_BRIDGE})]
    for view in _managed(primary_views(plan, node)):
        name = management_interface(view.network["id"])
        ids = {"iface-id": management_port(view.name, view.node), "k8s.ovn.org/network": view.name}
        columns = {
            "name": name,
            "type": "internal",
            "mac": mac_of_address(view.management_addresses()[0]),
            "mtu_request": view.network["mtu"],
            "external_ids": Keys(ids),
        }
        rows.append(Row("Port", name, {"name": name}, view.name, Parent("Bridge", INTEGRATION_BRIDGE, "ports")))
        rows.append(Row("Interface", name, columns, view.name, Parent("Port", name, "interfaces")))
    return rows


def render_host_network(plan: dict, node: str) -> HostNetwork:
    """Return the desired kernel state of the host; on a node without an uplink only the limits of the whole kernel."""
    views = primary_views(plan, node)
    if not views:
        return HostNetwork(sysctls=NEIGHBOUR_LIMITS)
    provider = views[0].provider
    of_ovn, of_mesh = _managed(views), gateway_views(plan, node)
    managed = of_ovn + of_mesh
    isolated = [view for view in managed if not view.is_default]
    nics = egress_nics(plan, node)
    return HostNetwork(
        links=tuple(HostLink(_interface(view), vrf=_vrf(view), network=view.name) for view in managed),
        vrfs=tuple(Vrf(_vrf(view), _interface(view), view.name, main_routes=True) for view in isolated),
        addresses=(
            *_masquerade_addresses(plan, provider),
            *render_held_addresses(plan, node),
            *(address for view in managed for address in _own_addresses(view)),
        ),
        routes=(
            *_main_routes(plan, provider),
            *(route for view in of_ovn for route in _inward_routes(view)),
            *(route for view in isolated for route in _vrf_routes(view, provider)),
            *(route for view in isolated for route in _masquerade_routes(view)),
            *nics.routes(),
        ),
        rules=(
            *network_rules(
                [rule for view in isolated for rule in _rules(view)], plan["settings"]["masquerade_subnets"]
            ),
            *egress_service_routing(views[0]),
            *nics.rules(),
        ),
        neighbours=(
            *_neighbours(plan, provider),
            *(neighbour for view in views if not view.is_default for neighbour in _router_neighbours(view, provider)),
        ),
        sysctls=(
            *NEIGHBOUR_LIMITS,
            *_sysctls(managed, {version for view in views for version in view.network["families"]}, provider),
            *nic_sysctls(views),
            *nics.sysctls(),
        ),
        link_tables=nics.names(),
    )


def _managed(views: list[NodeNetwork]) -> list[NodeNetwork]:
    """Networks of OVN in which the host has an interface."""
    return [view for view in views if view.is_default or view.provider.vrf]


def _interface(view: NodeNetwork) -> str:
    return management_interface(view.network["id"])


def _vrf(view: NodeNetwork) -> str:
    if view.is_default:
        return ""
    provider = view.provider
    own = (provider.bridge, provider.uplink, UNDERLAY_BRIDGE, *provider.physical_networks.values())
    taken = {*own, *provider.userspace_interfaces, *provider.advertised_interfaces}
    return vrf_name(view.network["object"], view.network["id"], taken)


def _own_addresses(view: NodeNetwork) -> list[HostAddress]:
    """The interface's addresses with the prefix length of their subnet."""
    return [
        HostAddress(_interface(view), f"{address}/{prefix_length(subnet)}", network=view.name)
        for address, subnet in zip(view.management_addresses(), view.subnets(), strict=True)
    ]


def _masquerade_subnets(plan: dict, provider: Provider) -> list[str]:
    """Return the masquerade subnets of the families that the host has an address of."""
    return [subnet for subnet in plan["settings"]["masquerade_subnets"] if provider.address(family(subnet))]


def _masquerade_addresses(plan: dict, provider: Provider) -> list[HostAddress]:
    return [
        HostAddress(
            provider.bridge,
            nth_interface(subnet, NodeNetwork.HOST_MASQUERADE),
            deprecated=family(subnet) == 6,
        )
        for subnet in _masquerade_subnets(plan, provider)
    ]


def render_held_addresses(plan: dict, node: str) -> list[HostAddress]:
    """Return the addresses that the host holds for others: it answers for them, and sends nothing of its own."""
    provider = provider_of(plan["nodes"][node])
    if provider is None:
        return []
    nics = held_nics(plan, node)
    return [
        HostAddress(nics.get(address, provider.bridge), host_route(address), deprecated=family(address) == 6)
        for address in announced_addresses(plan, node)
    ]


def _to_services(
    plan: dict, provider: Provider, mtu: int, vrf: str = "", network: str = "", only: list[str] | None = None
) -> list[HostRoute]:
    """Services are reached over the provider bridge, whose flows forward to a gateway router; `only` limits which."""
    masquerades = {family(subnet): subnet for subnet in _masquerade_subnets(plan, provider)}
    return [
        HostRoute(
            services,
            via=nth_address(masquerades[family(services)], NodeNetwork.DUMMY_NEXT_HOP),
            device=provider.bridge,
            source=nth_address(masquerades[family(services)], NodeNetwork.HOST_MASQUERADE),
            mtu=mtu,
            vrf=vrf,
            network=network,
        )
        for services in (plan["settings"]["service_subnets"] if only is None else only)
        if family(services) in masquerades
    ]


def _main_routes(plan: dict, provider: Provider) -> list[HostRoute]:
    to_routers = [
        HostRoute(
            host_route(nth_address(subnet, NodeNetwork.OVN_MASQUERADE)),
            device=provider.bridge,
            source=provider.address(family(subnet)),
        )
        for subnet in _masquerade_subnets(plan, provider)
    ]
    mtu, local = plan["settings"]["mtu"], _local_services(plan, provider)
    return [*to_routers, *_to_services(plan, provider, mtu), *_to_services(plan, provider, mtu, only=local)]


def _local_services(plan: dict, provider: Provider) -> list[str]:
    """Return the masquerade address for local services, where it leads to gateway routers: in shared gateway mode."""
    subnets = [] if provider.is_local else plan["settings"]["masquerade_subnets"]
    return [host_route(nth_address(subnet, NodeNetwork.LOCAL_SERVICE_MASQUERADE)) for subnet in subnets]


def _inward_routes(view: NodeNetwork) -> list[HostRoute]:
    """Routes into the network: everything outside the interface's own subnet is behind the network's router."""
    routes = []
    gateways = {family(interface): plain(interface) for interface in view.gateway_interfaces()}
    local = view.masquerade(NodeNetwork.LOCAL_SERVICE_MASQUERADE) if view.provider.is_local else []
    beyond = [host_route(address) for address in local]
    if view.network["topology"] == "Layer3":
        beyond += [subnet for subnet in view.network["subnets"] if subnet not in view.subnets()]
    for prefix in beyond:
        routes.append(
            HostRoute(
                prefix, via=gateways[family(prefix)], device=_interface(view), vrf=_vrf(view), network=view.name
            )
        )  # fmt: skip
    return routes


def _vrf_routes(view: NodeNetwork, provider: Provider) -> list[HostRoute]:
    to_services = _shared_service_routes if is_mesh(view.network) else _service_routes
    return [*to_services(view, provider), *_outward_routes(view, provider)]


def _service_routes(view: NodeNetwork, provider: Provider) -> list[HostRoute]:
    """Routes out of a VRF to services, and into it to the network's masquerade addresses."""
    vrf, name, mtu = _vrf(view), view.name, view.outward_mtu
    found = _to_services(view.plan, provider, mtu, vrf, name)
    found += _to_services(view.plan, provider, mtu, vrf, name, _local_services(view.plan, provider))
    routes = [route for route in found if _has(view, route.to)]
    return routes + _masquerade_routes(view, vrf)


def _masquerade_routes(view: NodeNetwork, vrf: str = "") -> list[HostRoute]:
    """Routes to the network's masquerade addresses, in its VRF or in the main table.

    ovn-kubernetes has a rule for each address that leads to the VRF's table. The route in the main table has the same
    result, by one rule for all networks (`network_rules.py`).
    """
    # A network of the mesh has no masquerade addresses.
    return [
        HostRoute(host_route(address), device=_interface(view), mtu=view.network["mtu"], vrf=vrf, network=view.name)
        for address in (() if is_mesh(view.network) else view.masquerade_addresses(1))
    ]


def _shared_service_routes(view: NodeNetwork, provider: Provider) -> list[HostRoute]:
    """Routes out of a VRF of the mesh to shared services, and to nothing else that OVN's routers have."""
    vrf, name, mtu = _vrf(view), view.name, view.outward_mtu
    shared = [host_route(address) for address in view.shared_services()]
    nowhere = [HostRoute(one, kind="unreachable", vrf=vrf, network=name) for one in unreachable_subnets(view)]
    return [*_to_services(view.plan, provider, mtu, vrf, name, shared), *nowhere]


def _outward_routes(view: NodeNetwork, provider: Provider) -> list[HostRoute]:
    """Routes out of a VRF: those of the host itself, which its other routes add (`Vrf.main_routes`).

    MTUs are on the routes on which ovn-kubernetes has them (`computeRoutesForUDN`).
    """
    vrf, name, mtu = _vrf(view), view.name, view.outward_mtu
    routes = []
    for version in view.network["families"]:
        everything = DEFAULT_ROUTES[version]
        routes += [
            HostRoute(subnet, device=provider.bridge, vrf=vrf, network=name)
            for subnet in provider.networks(version)
            # It would replace the kernel's own route to the network's subnet.
            if subnet not in view.subnets()
        ]
        nexthop = provider.next_hop(version)
        if nexthop:
            routes.append(HostRoute(everything, via=nexthop, device=provider.bridge, mtu=mtu, vrf=vrf, network=name))
        # Without it, lookups without a match in the VRF would continue in the main table.
        routes.append(
            HostRoute(everything, kind="unreachable", metric=UNREACHABLE_METRIC, vrf=vrf, network=name)
        )  # fmt: skip
    return routes


def _has(view: NodeNetwork, prefix: str) -> bool:
    return family(prefix) in view.network["families"]


def render_gateway_vrfs(plan: dict, node: str) -> list[str]:
    """Return the VRFs of the networks of `gateway_views`, in their order."""
    return [_vrf(view) for view in gateway_views(plan, node)]


def _rules(view: NodeNetwork) -> list[Rule]:
    return [
        Rule(version, _vrf(view), fwmark=packet_mark(view), network=view.name) for version in view.network["families"]
    ]


def _neighbours(plan: dict, provider: Provider) -> list[Neighbour]:
    """Gateway routers do not answer for these on the bridge."""
    return [
        Neighbour(provider.bridge, address, mac_of_address(address))
        for subnet in _masquerade_subnets(plan, provider)
        for address in (
            nth_address(subnet, offset) for offset in (NodeNetwork.OVN_MASQUERADE, NodeNetwork.DUMMY_NEXT_HOP)
        )
    ]


def _router_neighbours(view: NodeNetwork, provider: Provider) -> list[Neighbour]:
    return [
        Neighbour(provider.bridge, address, mac_of_address(address), view.name)
        for address in view.masquerade_addresses(0)
        if provider.address(family(address))
    ]


def _sysctls(managed: list[NodeNetwork], families: set[int], provider: Provider) -> tuple[Sysctl, ...]:
    """Forwarding between networks and the bridge; reverse path filtering off, since replies take another path."""
    found = [Sysctl(f"net/ipv4/conf/{provider.bridge}/forwarding", "1")]
    for view in managed:
        name = _interface(view)
        found += [
            Sysctl(f"net/ipv4/conf/{name}/forwarding", "1", network=view.name),
            Sysctl(f"net/ipv4/conf/{name}/rp_filter", "2", network=view.name),
        ]
    if 6 in families:
        # With forwarding enabled, the kernel drops routes from router advertisements and ignores new ones unless this
        # is 2.
        nexthop = provider.next_hop(6)
        own = [provider.bridge] if nexthop and nexthop.startswith("fe80:") else []
        found += [
            Sysctl(f"net/ipv6/conf/{uplink}/accept_ra", "2") for uplink in [*own, *provider.advertised_interfaces]
        ]
        # For all devices at once: Linux before 6.17 has no setting per device.
        found.append(Sysctl("net/ipv6/conf/all/forwarding", "1"))
    return tuple(found)
