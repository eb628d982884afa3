# SPDX-License-Identifier: Apache-2.0
"""The host as router of the primary networks of the mesh: which ones, and what leaves them by the host's kernel.

As with local gateway mode (`links_and_routes.py`) each network has a VRF, and the host masquerades what leaves it. OVN
translates there first, to an address that only that network has on the host; here packets arrive with addresses of
workloads, which workloads of another network may have too. So each network has a connection tracking zone of its own
for the original direction; replies, which come to the host's own address, are in the common zone (nf_conntrack, zones
with a direction). By the zone of its connection the host finds the VRF that a reply is for.
"""

from __future__ import annotations

from ...common.addressing import family, mac_of_address, nth_address
from ...common.naming import DEFAULT_NETWORK, management_interface
from ...types.nftables_ruleset import Chain, Set
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import NodeNetwork, is_mesh
from ..common.provider import Provider, provider_of
from ..gateway.bridge import packet_mark

# Zones of networks are this plus the id of the network, which is below 4096: above those that ovn-controller gives to
# ports and routers, from 1 on, and below those of the provider bridge (64000).
_ZONE_BASE = 57344
_OF_WORKLOADS = f"ct original zone {_ZONE_BASE}-{_ZONE_BASE + 4095}"
_WORDS = {4: ("ip", "ipv4_addr", "icmp type"), 6: ("ip6", "ipv6_addr", "icmpv6 type")}
# After the kernel's own source NAT, as in local gateway mode.
_AFTER_SOURCE_NAT = "101"


def gateway_mac(network: dict) -> str:
    """Return the MAC address of a network's gateway on all hosts: that of its first address, as a router's of OVN."""
    return mac_of_address(network["gateways"][0])


def gateway_views(plan: dict, node: str) -> list[NodeNetwork]:
    """Return the primary networks of the mesh in which a node is the router of workloads, by id.

    None on a node without an uplink, or whose kernel has no VRFs.
    """
    primary = {name for name, network in plan["networks"].items() if is_mesh(network) and "gateways" in network}
    provider = provider_of(plan["nodes"][node]) if primary else None
    if provider is None or not provider.vrf or not plan["nodes"][node].get("encap_ips"):
        return []
    used = {
        interface["network"]
        for workload in plan["workloads"].values()
        if node in hosting_nodes(workload)
        for interface in workload["interfaces"]
    }
    views = [NodeNetwork(plan, name, node, []) for name in primary & used]
    return sorted(views, key=lambda view: view.network["id"])


def why_no_gateway(plan: dict, network: str, provider: Provider | None) -> str:
    """Return why a node with an uplink routes for no workload of a network of the mesh, "" for all other networks."""
    if not is_mesh(plan["networks"][network]) or provider is None or provider.vrf:
        return ""
    return f"the node is no gateway of {network}, since its kernel has no VRFs"


def unreachable_subnets(view: NodeNetwork) -> list[str]:
    """Return what is behind OVN's routers on every host: without routes, packets would follow the default route."""
    settings = view.settings
    every = [
        *view.plan["networks"][DEFAULT_NETWORK]["subnets"],
        *settings["service_subnets"],
        *settings["masquerade_subnets"],
    ]
    return [subnet for subnet in every if family(subnet) in view.network["families"]]


def render_gateway_rules(views: list[NodeNetwork], vrfs: list[str]) -> tuple[list[Chain], list[Set]]:
    """Return chains and sets of `views`, the networks that the host routes for; `vrfs` are their VRFs. None for none.

    - `mesh-zone` gives packets of workloads the zone of their network, `mesh-reply` the mark of its VRF to replies.
    - `mesh-forward` lets nothing into a network but replies.
    - `mesh-masquerade` lets all leave with the host's address, to shared services with the one that they know it by.
    - `mesh-input` lets workloads reach the host as their gateway only, and not by its other addresses.
    """
    if not views:
        return [], []
    interfaces = [management_interface(view.network["id"]) for view in views]
    zones = [_ZONE_BASE + view.network["id"] for view in views]
    marks = [packet_mark(view) for view in views]
    inward = _any_of(interfaces)
    # Packets in a VRF have it as their interface, but for those of neighbour discovery (vrf_ip6_rcv).
    received = f"iifname {_any_of([*interfaces, *vrfs])}"
    every = [(view, address) for view in views for address in view.management_addresses()]
    versions = sorted({family(address) for _view, address in every})
    own = {version: _own_addresses(version) for version in versions}
    chains = [
        Chain(
            "mesh-zone", (f"ct original zone set iifname map {_map(map(_quoted, interfaces), zones)}",),
            hook="prerouting", priority="raw",
        ),
        Chain(
            "mesh-reply",
            (f"ct direction reply meta mark set ct original zone map {_map(zones, [f'{one:#x}' for one in marks])}",),
            hook="prerouting", priority="mangle",
        ),
        Chain(
            "mesh-forward",
            (f"oifname {inward} ct state established,related accept", f"oifname {inward} drop"), hook="forward",
        ),
        Chain(
            "mesh-input",
            (
                f"{received} ct state established,related accept",
                f"{received} icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept",
                *(
                    f"iifname . {_WORDS[version][0]} daddr @{own[version]} {_WORDS[version][2]} echo-request accept"
                    for version in versions
                ),
                f"{received} drop",
            ),
            hook="input",
        ),
        Chain(
            "mesh-masquerade", (*_to_shared_services(views[0].settings), f"{_OF_WORKLOADS} masquerade"),
            hook="postrouting", kind="nat", priority=_AFTER_SOURCE_NAT,
        ),
    ]  # fmt: skip
    names = dict(zip((view.name for view in views), vrfs, strict=True))
    sets = [
        Set(
            own[version],
            f"ifname . {_WORDS[version][1]}",
            tuple(
                f'"{names[view.name]}" . {address}' for view, address in every if family(address) == version
            ),
        )
        for version in versions
    ]  # fmt: skip
    return chains, sets


def _to_shared_services(settings: dict) -> list[str]:
    rules = []
    for masquerade in settings["masquerade_subnets"]:
        version = family(masquerade)
        word, host = _WORDS[version][0], nth_address(masquerade, NodeNetwork.HOST_MASQUERADE)
        subnets = [subnet for subnet in settings["service_subnets"] if family(subnet) == version]
        rules += [f"{_OF_WORKLOADS} {word} daddr {subnet} snat {word} to {host}" for subnet in subnets]
    return rules


def _own_addresses(version: int) -> str:
    return f"mesh-gateways-v{version}"


def _quoted(name: str) -> str:
    return f'"{name}"'


def _any_of(names: list[str]) -> str:
    return f"{{ {', '.join(map(_quoted, names))} }}"


def _map(keys, values) -> str:
    return f"{{ {', '.join(f'{key} : {value}' for key, value in zip(keys, values, strict=True))} }}"
