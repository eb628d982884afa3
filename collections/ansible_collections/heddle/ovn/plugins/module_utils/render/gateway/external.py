# SPDX-License-Identifier: Apache-2.0
"""Connects a network's gateway router to the provider network: external switch, routes, source NAT.

The same for the default network and every primary network, whatever its topology. Names, options and numbers as
ovn-kubernetes's gateway (OKEP-5193, "Shared Gateway Mode"): a user-defined network leaves with its own masquerade
address, which the provider bridge translates into the node's; so networks with equal subnets stay separate.
"""

from __future__ import annotations

from ...common.addressing import family, host_route, mac_of_address, plain
from ...common.naming import PHYSICAL_NETWORK, external_localnet_port, external_switch, gateway_router
from ...types.ovsdb_row import Parent, Row
from ..common.entrances import endpoints_beyond, has_local_by_host
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import ROUTER, route, router_port, switch, switch_port, vlan_columns
from ..common.provider import Provider

DEFAULT_ROUTES = {4: "0.0.0.0/0", 6: "::/0"}


def render_external(view: NodeNetwork) -> list[Row]:
    """Rows between the gateway router and the provider network; none on a node without an uplink."""
    provider = view.provider
    if not view.is_primary or provider is None:
        return []
    name = gateway_router(view.name, view.node)
    port = f"rtoe-{name}"
    return [
        *_external_switch(view, provider, port),
        _router_port(view, provider, name, port),
        *_neighbours(view, port),
        *_routes(view, provider, name, port),
        *_source_nat(view, provider, name),
        *_balanced_source_nat(view, name, port),
    ]


def _external_switch(view: NodeNetwork, provider: Provider, port: str) -> list[Row]:
    name = external_switch(view.name, view.node)
    # Only the default network's gateway router may announce the node's address: it is the same on all.
    announce = {"nat-addresses": "router", "exclude-lb-vips-from-garp": "true"} if view.is_default else {}
    return [
        switch(view, name, {}, view.external_ids(role=True)),
        switch_port(
            view, name, external_localnet_port(view.name, view.node, provider.bridge), type="localnet",
            addresses={"unknown"}, options={"network_name": PHYSICAL_NETWORK}, **vlan_columns(provider.vlan),
        ),
        switch_port(
            view, name, f"etor-{gateway_router(view.name, view.node)}", type="router", addresses={provider.mac},
            options={"router-port": port, **announce},
        ),
    ]  # fmt: skip


def _router_port(view: NodeNetwork, provider: Provider, name: str, port: str) -> Row:
    if view.is_default:
        return router_port(
            view, name, port, provider.mac, provider.addresses, external_ids={"gateway-physical-ip": "yes"}
        )
    own = [host_route(address) for address in view.masquerade_addresses(0)]
    return router_port(view, name, port, provider.mac, provider.addresses + own)


def _neighbours(view: NodeNetwork, port: str) -> list[Row]:
    """Static neighbours, since no host on the provider network answers for these addresses."""
    addresses = view.masquerade(view.DUMMY_NEXT_HOP)
    if not view.is_default:
        addresses += view.masquerade(view.HOST_MASQUERADE)
    return [
        Row(
            "Static_MAC_Binding",
            f"{port} {address}",
            {"logical_port": port, "ip": address, "mac": mac_of_address(address), "override_dynamic_mac": True},
            view.name,
        )
        for address in addresses
    ]


def _routes(view: NodeNetwork, provider: Provider, name: str, port: str) -> list[Row]:
    rows = []
    ids = {"k8s.ovn.org/node-masquerade-subnet": ""} if view.is_default else view.external_ids()
    dummies = {family(address): address for address in view.masquerade(view.DUMMY_NEXT_HOP)}
    for subnet in view.masquerade_subnets():
        rows.append(route(view, name, subnet, dummies[family(subnet)], output_port=port, external_ids=ids))
    # Without a default gateway there, answers that go by the host to other NICs need a way to the bridge all the same,
    # where all else ends that follows it (`service_flows.py`).
    through_host = dummies if has_local_by_host(view) else {}
    for version in view.network["families"]:
        nexthop = provider.next_hop(version) or through_host.get(version)
        if nexthop:
            rows.append(route(view, name, DEFAULT_ROUTES[version], nexthop, output_port=port))
    return rows


def _source_nat(view: NodeNetwork, provider: Provider, name: str) -> list[Row]:
    """Traffic of the network leaves with one address per family."""
    rows = []
    own = {family(address): address for address in view.masquerade_addresses(0)}
    inner = [plain(interface) for interface in view.join_interfaces()] + view.network["subnets"]
    for logical in inner:
        version = family(logical)
        external = provider.address(version) if view.is_default else own.get(version)
        if external is None:
            continue
        rows.append(_snat(view, name, logical, external))
    return rows


def _balanced_source_nat(view: NodeNetwork, name: str, port: str) -> list[Row]:
    """What a Service leads to endpoints beyond the network leaves with the network's address as well.

    OVN would translate it to an address that other networks have, too: that of the join subnet or of the node
    (`lb_force_snat_ip`, `routers.py`). Then replies would not show the network that they belong to.
    ovn-kubernetes does so, and does not support such endpoints on user-defined networks (its commits 05525943f and
    9f42f9457). A row with a match precedes that translation (northd, `lrouter_nat_get_priority`).
    """
    if view.is_default:
        return []
    own = {family(address): address for address in view.masquerade_addresses(0)}
    match = f'flags.force_snat_for_lb == 1 && outport == "{port}"'
    return [
        _snat(view, name, DEFAULT_ROUTES[version], own[version], match=match)
        for version in sorted({family(address) for address in endpoints_beyond(view)} & own.keys())
    ]


def _snat(view: NodeNetwork, name: str, logical: str, external: str, **more: str) -> Row:
    columns = {
        "type": "snat",
        "logical_ip": logical,
        "external_ip": external,
        "external_port_range": view.translated_ports,
        "options": {"stateless": "false"},
        "external_ids": view.external_ids(),
        **more,
    }
    return Row("NAT", f"{name} snat {logical} {external}", columns, view.name, Parent(ROUTER, name, "nat"))
