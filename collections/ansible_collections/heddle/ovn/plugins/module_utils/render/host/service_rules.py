# SPDX-License-Identifier: Apache-2.0
"""The host's nftables rules for Services that are reached from beyond their network.

What processes of the host, and workloads by way of the host, send to a node port or an address of a Service is
translated to its cluster IP and marked with its network; routes and the provider bridge bring it to the network's
gateway router. Chains as ovn-kubernetes's (`udn-service-mark`, `services-output`, `services-prerouting`), with maps
instead of rules, so that the cost of a packet does not grow with the number of Services.

With the external traffic policy Local, what comes in from the uplink keeps its source address. To a Service with a
process of this node as endpoint it is translated to the address of that process. In local gateway mode it is translated
to the masquerade address for local services else, which leads over the management port to the endpoints of this node.
So it is in both modes with what comes in by another NIC; in shared mode that address leads to the gateway router
(`gateway/service_flows.py`).
"""

from __future__ import annotations

from ...common.addressing import family
from ...common.naming import management_interface
from ...types.nftables_ruleset import Chain, Map
from ..common.entrances import (
    Entrance,
    entrances,
    further_entrances,
    is_open_to_nodes,
    local_port,
    process_of_node,
)
from ..common.node_network import NodeNetwork
from ..gateway.bridge import PACKET_MARK_BASE, PACKET_MARK_MASK, packet_mark
from .nic_forwarding import entry_nics, matching

_WORDS = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}


def render_service_rules(views: list[NodeNetwork]) -> tuple[list[Chain], list[Map]]:
    """Return chains and maps; none without entrances. `views` are the primary networks of the node."""
    by_provider = [(view, one) for view in views for one in entrances(view)]
    if not by_provider:
        return [], []
    provider, nics = views[0].provider, entry_nics(views)
    found = by_provider + [(view, one) for view in views for one in further_entrances(view)]
    versions = sorted({one.version for _view, one in found})
    local = [(view, one) for view, one in by_provider if local_target(view, one)]
    kept = [(view, one) for view, one in found if nics and one.is_here and local_target_of_nic(view, one)]
    # What others send to an address that another host has is not for this host.
    received = [(view, one) for view, one in found if one.is_here and is_open_to_nodes(view, one)]
    maps = []
    for version in versions:
        maps += [
            _map(f"service-marks-v{version}", version, "mark", found, lambda view, _one: f"{packet_mark(view):#x}"),
            _map(
                f"service-targets-v{version}", version, _pair(version), found, _cluster_ip
            ),
            _map(
                f"received-service-targets-v{version}", version, _pair(version),
                received, _cluster_ip,
            ),
        ]  # fmt: skip
        if any(one.version == version for _view, one in local):
            maps.append(_map(f"local-service-targets-v{version}", version, _pair(version), local, local_target))
        if any(one.version == version for _view, one in kept):
            maps.append(_map(f"nic-service-targets-v{version}", version, _pair(version), kept, local_target_of_nic))
    names = {one.name for one in maps}
    by_entry = [(f'iifname "{provider.bridge}"', "local-service-targets")]
    by_entry += [(matching("iifname", nics), "nic-service-targets")] if nics else []
    noted, restored = _marks_of_errors(nics)
    chains = [
        Chain("service-mark", tuple(f"meta mark set {_key(one)} map @service-marks-v{one}" for one in versions)),
        Chain(
            "service-mark-prerouting", ("jump service-mark", *noted, *restored), hook="prerouting", priority="mangle"
        ),
        Chain("service-mark-output", ("jump service-mark", *restored), hook="output", kind="route", priority="mangle"),
        Chain(
            "services-prerouting",
            (
                *(_translation(version, f"{name}-v{version}", place) for place, name in by_entry
                  for version in versions if f"{name}-v{version}" in names),
                *(_translation(version, f"received-service-targets-v{version}") for version in versions),
            ),
            hook="prerouting", kind="nat", priority="dstnat",
        ),
        Chain(
            "services-output", tuple(_translation(version, f"service-targets-v{version}") for version in versions),
            hook="output", kind="nat", priority="dstnat",
        ),
    ]  # fmt: skip
    return chains, maps


def _marks_of_errors(nics: list[str]) -> tuple[list[str], list[str]]:
    """Return rules that note the mark of a connection by another NIC, and give it to ICMP errors about its answers.

    Path MTU discovery: these have no port, and the host's own or those of a router beyond the NIC have to reach the
    network as well.
    """
    if not nics:
        return [], []
    is_marked = f"mark & {PACKET_MARK_MASK:#x} == {PACKET_MARK_BASE:#x}"
    return (
        [f"{matching('iifname', nics)} meta {is_marked} ct mark set meta mark"],
        [f"ct state related ct direction original ct {is_marked} meta mark set ct mark"],
    )


def local_target(view: NodeNetwork, entrance: Entrance) -> str:
    """Return address and port that keep the source address of what comes in from the uplink, "" where OVN does that.

    Of a process of this node, else, in local gateway mode, what leads to the endpoints of this node.
    """
    if not view.provider.is_local and process_of_node(view, entrance) is None:
        return ""
    return local_target_of_nic(view, entrance)


def local_target_of_nic(view: NodeNetwork, entrance: Entrance) -> str:
    """Return the same of what comes in by another NIC, in both gateway modes."""
    process = process_of_node(view, entrance)
    if process:
        return _pair_of(*process)
    if not entrance.is_local or not local_port(entrance):
        return ""
    local = {family(one): one for one in view.masquerade(NodeNetwork.LOCAL_SERVICE_MASQUERADE)}
    return _pair_of(local[entrance.version], local_port(entrance)) if entrance.version in local else ""


def forwarded(views: list[NodeNetwork]) -> list[str]:
    """Return the rules that let the host forward what `services-prerouting` translated."""
    if not any(entrances(view) for view in views):
        return []
    provider = views[0].provider
    rules = [f'iifname "{provider.bridge}" oifname "{provider.bridge}" ct status dnat accept']
    return rules + [
        f'oifname "{management_interface(0)}" {match} ct status dnat accept' for match in _local_matches(views)
    ]


def untranslated(views: list[NodeNetwork]) -> list[str]:
    """Return the rules that keep the source address of what goes to local services of the default network."""
    return [f"{match} return" for match in _local_matches(views)]


def _local_matches(views: list[NodeNetwork]) -> list[str]:
    default = views[0]
    if not default.provider.is_local or not any(one.is_local for one in entrances(default)):
        return []
    addresses = default.masquerade(NodeNetwork.LOCAL_SERVICE_MASQUERADE)
    return [f"{_WORDS[family(address)][0]} daddr {address}" for address in addresses]


def _cluster_ip(_view: NodeNetwork, entrance: Entrance) -> str:
    return _pair_of(entrance.cluster_ip, entrance.port["port"])


def _pair_of(address: str, port: int) -> str:
    return f"{address} . {port}"


def _key(version: int) -> str:
    return f"{_WORDS[version][0]} daddr . meta l4proto . th dport"


def _pair(version: int) -> str:
    return f"{_WORDS[version][1]} . inet_service"


def _translation(version: int, name: str, match: str = "") -> str:
    return f"{match} dnat {_WORDS[version][0]} to {_key(version)} map @{name}".strip()


def _map(name: str, version: int, value: str, found: list[tuple[NodeNetwork, Entrance]], result) -> Map:
    elements = sorted(
        f"{one.address} . {one.protocol.lower()} . {one.number} : {result(view, one)}"
        for view, one in found
        if one.version == version
    )
    return Map(name, f"{_WORDS[version][1]} . inet_proto . inet_service", value, tuple(elements))
