# SPDX-License-Identifier: Apache-2.0
"""Renders the routers and clients of Egress objects on a node: tunnels, tables, rules, address translation.

Coil v2, "How FoU works", "Working with Service", "Implementation". A client sends to the address of its Egress. What
a Service does in a cluster, choosing the router, is done in the client's namespace, so that it works on any network:
with affinity all of a client goes to one router, without it each flow of the tunnel's source ports. Either choice
changes only for those whose router is gone, or who get a new one.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator, Sequence

from ...common.addressing import family, host_route, is_within
from ...common.naming import workload_namespace
from ...types.egress_nat import (
    FOU_PORT,
    INBOUND_MARK,
    MAIN_TABLE,
    NARROW_TABLE,
    RETURN_TABLE,
    UPLINK,
    WIDE_TABLE,
    EgressNamespace,
    EgressRule,
    Tunnel,
    TunnelRoute,
)
from ...types.nftables_ruleset import EGRESS_TABLE, Chain, Firewall

_LINK_LOCAL = {4: "169.254.0.0/16", 6: "fe80::/10"}
# Ranges within a cluster: only destinations that are given expressly are beyond a router there.
_PRIVATE = {4: ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"), 6: ("fc00::/7",)}
_LINK_LOCAL_PRIORITY, _NARROW_PRIORITY, _PRIVATE_PRIORITY, _WIDE_PRIORITY = 1800, 1900, 2000, 2100
# Of Heddle: Coil chooses routers outside of the client's namespace, where the packet is not routed again.
_TUNNEL_PRIORITY = 1850
_INBOUND_PRIORITY, _RETURN_PRIORITY = 1000, 2000
_WORDS = {4: "ip", 6: "ip6"}
# Flows without affinity are divided into so many parts, each of which has a router.
_PARTS = 64


def render_egress(plan: dict, node: str) -> list[EgressNamespace]:
    """Return what routers and clients on a node have; nothing without Egress objects."""
    egress = plan.get("egress")
    if not egress:
        return []
    routers: dict[str, list[dict]] = {}
    clients: dict[str, list[dict]] = {}
    for workload in egress["workloads"].values():
        if "router_of" in workload:
            routers.setdefault(workload["router_of"], []).append(workload)
        for name in workload.get("egresses", ()):
            clients.setdefault(name, []).append(workload)
    found = []
    for workload in egress["workloads"].values():
        if workload["node"] != node:
            continue
        if "router_of" in workload:
            name = workload["router_of"]
            found.append(_router(workload, egress["gateways"][name], clients.get(name, [])))
        else:
            only = egress.get("originating_only", False)
            found.append(_client(workload, egress["gateways"], routers, originating_only=only))
    return found


def tunnel_name(remote: str) -> str:
    """Return the name of the tunnel to an address: `fou4_` and its hexadecimal form, `fou6_` and a part of a hash."""
    packed = ipaddress.ip_address(remote).packed
    return f"fou4_{packed.hex()}" if len(packed) == 4 else f"fou6_{hashlib.sha1(packed).digest()[:4].hex()}"


def is_private(destination: str) -> bool:
    """Return whether an address, or the first one of a network, is in a private range, as Coil decides it.

    What is in one is reached directly, unless it is in a destination of which this holds.
    """
    return is_within(destination.partition("/")[0], _PRIVATE[family(destination)])


def chosen_router(client: str, routers: Sequence[str]) -> str:
    """Return the router of a client, or of a part of flows: the one with the highest hash (RFC 2991, section 3).

    When one is gone, only those change that had it; a further one gets about as many as each other has.
    """
    return max(routers, key=lambda router: hashlib.sha256(f"{client} {router}".encode()).digest())


def _own(workload: dict) -> dict[int, str]:
    return {family(address): address for address in workload["addresses"]}


def _router(workload: dict, gateway: dict, clients: list[dict]) -> EgressNamespace:
    own = _own(workload)
    tunnels, routes = [], []
    for client in clients:
        for address in client["addresses"]:
            if family(address) in own:
                local = own[family(address)]
                tunnels.append(Tunnel(tunnel_name(address), local, address, gateway["source_port"]))
                routes.append(TunnelRoute(RETURN_TABLE, host_route(address), tunnel_name(address)))
    rules = [EgressRule(version, _RETURN_PRIORITY, RETURN_TABLE, iif=UPLINK) for version in own]
    return EgressNamespace(
        workload_namespace(workload["namespace"], workload["name"]), tuple(own), tuple(tunnels), tuple(routes),
        tuple(rules), _router_firewall(own), forwards=True,
    )  # fmt: skip


def _router_firewall(own: dict[int, str]) -> Firewall:
    """Translate what leaves by eth0, but for the tunnels' own packets, and drop what belongs to no connection.

    Segments are as large as fits into the tunnel: the client's own limit is not that of the way back to it.
    """
    translate = [
        f'{_WORDS[version]} saddr != {address} oifname "{UPLINK}" counter masquerade'
        for version, address in own.items()
    ]
    forward = [f'meta nfproto ipv{version} oifname "{UPLINK}" ct state invalid counter drop' for version in own]
    forward += [
        f"meta nfproto ipv{version} tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu" for version in own
    ]
    return Firewall(
        (
            Chain("forward", tuple(forward), hook="forward"),
            Chain("postrouting", tuple(translate), hook="postrouting", kind="nat", priority="srcnat"),
        ),
        table=EGRESS_TABLE,
    )


def _client(
    workload: dict, gateways: dict[str, dict], routers: dict[str, list[dict]], *, originating_only: bool
) -> EgressNamespace:
    own = _own(workload)
    tunnels, choices = [], []
    routes: dict[tuple[int, str], TunnelRoute] = {}
    families: dict[int, None] = {}
    for name in workload["egresses"]:
        gateway = gateways[name]
        for address in gateway["addresses"]:
            version = family(address)
            wanted = [one for one in gateway["destinations"] if family(one) == version]
            if version not in own or not wanted:
                continue
            families[version] = None
            there = [_own(one)[version] for one in routers.get(name, ()) if version in _own(one)]
            tunnel = Tunnel(tunnel_name(address), own[version], address, gateway["source_port"], tuple(there))
            tunnels.append(tunnel)
            for destination in wanted:
                table = NARROW_TABLE if is_private(destination) else WIDE_TABLE
                # Of two gateways with the same destination the first one has it; the workload's status reports it.
                routes.setdefault((table, destination), TunnelRoute(table, destination, tunnel.name))
            choices += _choice(own[version], address, there, gateway["affinity"])
    rules = [rule for version in own for rule in _client_rules(version)]
    # The kernel looks the way of a tunnel's own packets up again when it has chosen the router: not through the tunnel.
    ends = dict.fromkeys(end for tunnel in tunnels for end in (tunnel.remote, *tunnel.routers))
    rules += [EgressRule(family(end), _TUNNEL_PRIORITY, MAIN_TABLE, to=host_route(end)) for end in ends]
    if originating_only:
        rules += [EgressRule(version, _INBOUND_PRIORITY, MAIN_TABLE, fwmark=INBOUND_MARK) for version in own]
    return EgressNamespace(
        workload_namespace(workload["namespace"], workload["name"]), tuple(families), tuple(tunnels),
        tuple(routes.values()), tuple(rules), _client_firewall(choices, originating_only=originating_only),
    )  # fmt: skip


def _client_rules(version: int) -> Iterator[EgressRule]:
    yield EgressRule(version, _LINK_LOCAL_PRIORITY, MAIN_TABLE, to=_LINK_LOCAL[version])
    yield EgressRule(version, _NARROW_PRIORITY, NARROW_TABLE)
    for number, private in enumerate(_PRIVATE[version]):
        yield EgressRule(version, _PRIVATE_PRIORITY + number, MAIN_TABLE, to=private)
    yield EgressRule(version, _WIDE_PRIORITY, WIDE_TABLE)


def _choice(client: str, address: str, routers: list[str], affinity: int) -> list[str]:
    """The rules by which packets to an Egress's address go to one of its routers; without any they are dropped."""
    version = family(address)
    word = _WORDS[version]
    to = f"{word} daddr {address} udp dport {FOU_PORT}"
    if not routers:
        return [f"{to} counter drop"]
    if affinity or len(routers) == 1:
        return [f"{to} counter dnat {word} to {chosen_router(client, routers)}"]
    parts = ", ".join(f"{part} : {chosen_router(f'{client} {part}', routers)}" for part in range(_PARTS))
    return [f"{to} counter dnat {word} to jhash udp sport mod {_PARTS} seed 0x1 map {{ {parts} }}"]


def _client_firewall(choices: list[str], *, originating_only: bool) -> Firewall:
    """Choose routers; what answers a connection that came in elsewhere than by a tunnel is routed without tables 117.

    Such a connection keeps its mark, and the rule of that mark comes first.
    """
    chains = [Chain("output", tuple(choices), hook="output", kind="nat", priority="dstnat")] if choices else []
    if originating_only:
        elsewhere = 'iifname != "fou*" iifname != "coil_*" iifname != "lo"'
        inbound = f"{elsewhere} ct direction original ct mark set {INBOUND_MARK:#010x}"
        answer = f"ct mark {INBOUND_MARK:#010x} meta mark set ct mark"
        chains += [
            Chain("inbound", (inbound,), hook="input", priority="mangle"),
            Chain("answers", (answer,), hook="output", kind="route", priority="mangle"),
        ]
    return Firewall(tuple(chains), table=EGRESS_TABLE)
