# SPDX-License-Identifier: Apache-2.0
"""The host's nftables tables: access to workloads over the default network, and source NAT.

Chains and sets as ovn-kubernetes's (OKEP-5193, "Kubernetes Readiness/Liveness Probes"), with nftables for what the
document shows as iptables.
"""

from __future__ import annotations

from collections.abc import Collection

from ...common.addressing import family, nth_address, plain
from ...common.naming import DEFAULT_NETWORK, LOCKED_ROLE, USERSPACE_LINKS, management_interface
from ...types.nftables_ruleset import USERSPACE_TABLE, Chain, Firewall, Set
from ..common.egress_ips import OTHER_NIC_MARK
from ..common.node_network import NodeNetwork
from ..gateway.bridge import primary_views
from .egress_nics import egress_nics, render_filter
from .egress_service_rules import render_egress_service_rules
from .links_and_routes import render_gateway_vrfs
from .mesh_gateway import gateway_views, render_gateway_rules
from .nic_forwarding import matching, other_nics, render_nic_chains
from .service_rules import forwarded, render_service_rules, untranslated

_FAMILIES = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}
# Fixed masquerade addresses of hosts and routers; the networks' own follow these.
_FIXED_MASQUERADES = {4: 29, 6: 125}
# After the kernel's own source NAT.
_AFTER_SOURCE_NAT = "101"


def render_firewall(plan: dict, node: str, *, with_prober: bool = True, routing: Collection[str] = ()) -> Firewall:
    """Return the node's table; nothing on a node without an uplink.

    `with_prober` False leaves out the rule for the health prober, whose cgroup has to exist. `routing` are NICs that
    others have made forward.
    """
    views = primary_views(plan, node)
    if not views:
        return Firewall()
    default = next(view for view in views if view.is_default)
    nics = egress_nics(plan, node)
    chains = [_isolation(default, with_prober=with_prober), _north_south(views), _management(views)]
    chains += [*nics.chains(), render_filter(default)]
    if default.provider.is_local:
        chains += _local_gateway(default)
    service_chains, maps = render_service_rules(views)
    egress_chains, egress_sets, egress_maps = render_egress_service_rules(default)
    chains += service_chains + render_nic_chains(views, routing) + egress_chains
    maps = [*maps, *egress_maps]
    sets = [Set(_locked(version), _FAMILIES[version][1], _locked_addresses(plan, node, version)) for version in (4, 6)]
    mesh_chains, mesh_sets = render_gateway_rules(gateway_views(plan, node), render_gateway_vrfs(plan, node))
    chains += mesh_chains
    sets += egress_sets + mesh_sets
    return Firewall(chains=tuple(chains), sets=tuple(sets), maps=(*maps, *nics.maps()))


def render_userspace_interfaces(uplinks: list[str]) -> Firewall:
    """Return the table for what a userspace datapath reads: uplinks, and links and taps of workloads.

    It reads a copy of incoming packets; the kernel would answer the original, with resets, and a workload would reach
    the host's own addresses without its network.
    """
    rules = [f"iifgroup {USERSPACE_LINKS} drop"]
    if uplinks:
        names = ", ".join(f'"{uplink}"' for uplink in sorted(uplinks))
        rules.append(f"iifname {{ {names} }} drop")
    chain = Chain("userspace-interfaces", tuple(rules), hook="prerouting", priority="raw")
    return Firewall(chains=(chain,), table=USERSPACE_TABLE)


def _locked(version: int) -> str:
    return f"udn-pod-default-ips-v{version}"


def _locked_addresses(plan: dict, node: str, version: int) -> tuple[str, ...]:
    """Addresses on the default network of the node's workloads that have a primary network besides."""
    return tuple(
        sorted(
            plain(address)
            for workload in plan["workloads"].values()
            if workload["node"] == node
            for interface in workload["interfaces"]
            if interface["network"] == DEFAULT_NETWORK and interface["role"] == LOCKED_ROLE
            for address in interface["addresses"]
            if family(address) == version
        )
    )


def _isolation(view: NodeNetwork, *, with_prober: bool) -> Chain:
    """Processes of the host reach a workload only through its primary network, except the health prober.

    What connection tracking calls established is not enough, as in ovn-kubernetes: other processes would get into a
    connection of the prober. The host answers what a workload asked.
    """
    prober = view.provider.prober if with_prober else ""
    rules = []
    for version in (4, 6):
        destination = f"{_FAMILIES[version][0]} daddr @{_locked(version)}"
        rules.append(f"{destination} ct direction reply ct state established,related accept")
        if prober:
            level = len(prober.strip("/").split("/"))
            rules.append(f'socket cgroupv2 level {level} "{prober.strip("/")}" {destination} accept')
            # Only packets of a socket that a process has open have a user: not what the kernel sends to end a
            # connection of the prober, which has no cgroup either.
            rules.append(f"{destination} meta skuid >= 0 drop")
            rules.append(f"{destination} ct state established,related accept")
        rules.append(f"{destination} drop")
    return Chain("udn-isolation", tuple(rules), hook="output")


def _north_south(views: list[NodeNetwork]) -> Chain:
    """The host forwards only replies to workloads, in local gateway mode, besides connections of its own.

    Nor does it forward from the provider network and other NICs to services: they are for hosts and workloads; nor from
    workloads of the default network, which OVN has led to theirs before, and others are for other networks. What it has
    translated to a service itself (`service_rules.py`) is excepted.

    Without this, an external host that sends to a workload's address by the host's MAC reaches it, even where the
    default network is locked, because the management port gives the packet the host's own address. ovn-kubernetes
    leaves that open unless forwarding is disabled.
    """
    inward = f'oifname "{management_interface(0)}"'
    rules = [f"{inward} ct state established,related accept", *forwarded(views), f"{inward} drop"]
    return Chain("north_south", (*rules, *_to_services(views[0])), hook="forward")


def _to_services(view: NodeNetwork) -> list[str]:
    rules = []
    # In shared mode the masquerade address for local services leads to gateway routers as well, without source ranges.
    local = [] if view.provider.is_local else view.masquerade(NodeNetwork.LOCAL_SERVICE_MASQUERADE)
    for services in [*view.settings["service_subnets"], *local]:
        version = family(services)
        word = _FAMILIES[version][0]
        asked = f'iifname "{view.provider.bridge}" {word} daddr {services}'
        # Without VRFs networks reach services across the bridge and back, under their masquerade addresses.
        if not view.provider.vrf and services not in local:
            masquerades = [subnet for subnet in view.settings["masquerade_subnets"] if family(subnet) == version]
            rules += [f"{asked} {word} saddr {subnet} accept" for subnet in masquerades]
        rules.append(f"{asked} drop")
        others = [f'iifname "{management_interface(0)}"']
        others += [matching("iifname", nics)] if (nics := other_nics(view)) else []
        for place in others:
            rules += [f"{place} {word} daddr {services} {action}" for action in ("ct status dnat accept", "drop")]
    return rules


def _management(views: list[NodeNetwork]) -> Chain:
    """Workloads of the default network see the host under the address of its management port."""
    own = views[0].management_addresses()
    rules = [f'oifname != "{management_interface(0)}" return', *untranslated(views)]
    rules += [f"{_FAMILIES[family(address)][0]} saddr {address} return" for address in own]
    rules += [f"meta nfproto ipv{family(address)} snat {_FAMILIES[family(address)][0]} to {address}" for address in own]
    return Chain("mgmtport-snat", tuple(rules), hook="postrouting", kind="nat", priority="srcnat")


def _local_gateway(view: NodeNetwork) -> list[Chain]:
    """In local gateway mode the host masquerades leaving packets; networks arrive under masquerade addresses."""
    settings = view.settings
    hosts, networks = [], []
    for masquerade in settings["masquerade_subnets"]:
        version = family(masquerade)
        word = _FAMILIES[version][0]
        hosts.append(f"{word} saddr {nth_address(masquerade, NodeNetwork.OVN_MASQUERADE)} masquerade")
        fixed = f"{nth_address(masquerade, 0)}/{_FIXED_MASQUERADES[version]}"
        services = [subnet for subnet in settings["service_subnets"] if family(subnet) == version]
        elsewhere = "".join(f" {word} daddr != {subnet}" for subnet in services)
        networks.append(f"{word} saddr != {fixed}{elsewhere} {word} saddr {masquerade} masquerade")
    workloads = [f"{_FAMILIES[family(subnet)][0]} saddr {subnet} masquerade" for subnet in view.subnets()]
    # Such a packet is to be dropped by `egress-ip-sec-filter`, which sees it afterwards.
    kept = f"meta mark {OTHER_NIC_MARK:#x} return"
    jumps = ["jump ovn-kube-pod-subnet-masq", "jump ovn-kube-udn-masq"]
    return [
        Chain("ovn-kube-pod-subnet-masq", tuple(workloads)),
        Chain("ovn-kube-udn-masq", tuple(networks)),
        Chain(
            "ovn-kube-local-gw-masq", (kept, *hosts, *jumps), hook="postrouting", kind="nat", priority=_AFTER_SOURCE_NAT
        ),
    ]  # fmt: skip
