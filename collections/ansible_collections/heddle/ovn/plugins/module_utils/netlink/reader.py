# SPDX-License-Identifier: Apache-2.0
"""Reads VRFs, addresses, routes, rules and neighbours of a network namespace from netlink.

The owner's mark is the attribute `protocol`, which pyroute2 0.7 has for routes and rules only; the other two messages
are completed here (linux/if_addr.h, linux/neighbour.h).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types.host_network import PROTOCOL, WHOLE_MARK, HostRoute
from ..types.routed_workloads import PROTOCOL as ROUTED
from .kernel import read_whole
from .protocol.link_dumps import read_addresses, read_links
from .protocol.messages import FAMILIES, destination, route_table
from .protocol.raw_socket import RawSocket
from .protocol.rtnetlink import (
    FIB_RULE_INVERT,
    FR_ACT_GOTO,
    FR_ACT_TO_TBL,
    IFA_F_DEPRECATED,
    IFA_F_NOPREFIXROUTE,
    IFA_F_SECONDARY,
    RTM_F_CLONED,
    RTN_BLACKHOLE,
    RTN_PROHIBIT,
    RTN_UNICAST,
    RTN_UNREACHABLE,
    RTNH_F_ONLINK,
    RTPROT_KERNEL,
)

try:
    from pyroute2.netlink import nlmsg
    from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
    from pyroute2.netlink.rtnl.ndmsg import ndmsg

    # Not subclasses of pyroute2's: those would inherit its cache of the attributes (`compile_nla`).
    class AddressMessage(nlmsg):
        """An address with its protocol."""

        prefix = ifaddrmsg.prefix
        fields = ifaddrmsg.fields
        cacheinfo = ifaddrmsg.cacheinfo
        nla_map = (
            *ifaddrmsg.nla_map[:9], ("IFA_RT_PRIORITY", "uint32"), ("IFA_TARGET_NETNSID", "int32"),
            ("IFA_PROTO", "uint8"),
        )  # fmt: skip

    class NeighbourMessage(nlmsg):
        """A neighbour with its protocol."""

        prefix = ndmsg.prefix
        fields = ndmsg.fields
        cacheinfo = ndmsg.cacheinfo
        nla_map = (*ndmsg.nla_map[:12], ("NDA_PROTOCOL", "uint8"))

except ImportError:
    nlmsg = None

# rtnetlink(7), rtm_type.
KINDS = {
    "unicast": RTN_UNICAST, "blackhole": RTN_BLACKHOLE, "unreachable": RTN_UNREACHABLE, "prohibit": RTN_PROHIBIT,
}  # fmt: skip
DEFAULT_METRIC = {4: 0, 6: 1024}
_KIND_NAMES = {number: name for name, number in KINDS.items()}
NEIGHBOUR_PERMANENT = 0x80  # NUD_PERMANENT (linux/neighbour.h)


@dataclass(frozen=True)
class LinkState:
    """A link; `table` is a VRF's, `master` the name of what it belongs to."""

    index: int
    mac: str
    mtu: int
    up: bool
    alias: str = ""
    kind: str = ""
    master: str = ""
    table: int = 0


@dataclass(frozen=True)
class AddressState:
    """An address of a link; `own` means that it carries the mark.

    `secondary`: IPv4 only, another address of the link was in the same subnet first.
    """

    own: bool
    deprecated: bool
    prefix_route: bool
    secondary: bool


@dataclass(frozen=True)
class RouteState:
    """A route; it is identified by (table, prefix, metric)."""

    own: bool
    kind: str
    via: str = ""
    device: str = ""
    source: str = ""
    mtu: int = 0
    on_link: bool = False
    message: object = None


@dataclass(frozen=True)
class RuleState:
    """A rule: packets `to` a prefix and with a mark (0 for any) are looked up in a table.

    `source` is a prefix or "", `source_port` 0 for any. With `goto`, a priority, `table` is 0; see `Rule`.
    """

    family: int
    priority: int
    to: str
    fwmark: int
    table: int
    source: str = ""
    source_port: int = 0
    fwmask: int = WHOLE_MARK
    inverted: bool = False
    goto: int = 0


@dataclass(frozen=True)
class NeighbourState:
    """A neighbour of a link."""

    own: bool
    permanent: bool
    mac: str


@dataclass(frozen=True)
class HostState:
    """The state of a namespace.

    `rules` are own ones with the kernel's message, None where a rule matches on more than `RuleState` has, as
    `foreign_rules` may.
    """

    links: dict[str, LinkState]
    addresses: dict[tuple[str, str], AddressState]
    routes: dict[tuple[int, str, int], RouteState]
    rules: tuple[tuple[RuleState | None, object], ...]
    foreign_rules: tuple[RuleState, ...]
    neighbours: dict[tuple[str, str], NeighbourState]


@read_whole
def read_state(netlink, raw: RawSocket) -> HostState:
    """Return the state of a namespace that both sockets are in."""
    links = _links(raw)
    names = {link.index: name for name, link in links.items()}
    rules, foreign_rules = _rules(netlink)
    return HostState(
        links, _addresses(raw, names), _routes(netlink, names), rules, foreign_rules, _neighbours(netlink, names)
    )  # fmt: skip


def _links(raw: RawSocket) -> dict[str, LinkState]:
    entries = read_links(raw)
    names = {entry.index: entry.name for entry in entries}
    return {
        entry.name: LinkState(
            index=entry.index,
            mac=entry.mac,
            mtu=entry.mtu,
            up=entry.up,
            alias=entry.alias,
            kind=entry.kind,
            master=names.get(entry.master, ""),
            table=entry.table,
        )
        for entry in entries
    }


def _addresses(raw: RawSocket, names: dict[int, str]) -> dict[tuple[str, str], AddressState]:
    return {
        (names.get(entry.index, ""), entry.text): AddressState(
            own=entry.protocol == PROTOCOL,
            deprecated=bool(entry.flags & IFA_F_DEPRECATED),
            prefix_route=not entry.flags & IFA_F_NOPREFIXROUTE,
            # The same bit is that of a temporary address in IPv6.
            secondary=bool(entry.flags & IFA_F_SECONDARY) and ":" not in entry.text,
        )
        for entry in read_addresses(raw)
    }


def _routes(netlink, names: dict[int, str]) -> dict[tuple[int, str, int], RouteState]:
    found: dict[tuple[int, str, int], RouteState] = {}
    for family, number in FAMILIES.items():
        for message in netlink.get_routes(family=number):
            if message["flags"] & RTM_F_CLONED or message["type"] not in _KIND_NAMES:
                continue
            metrics = message.get_attr("RTA_METRICS")
            kind = _KIND_NAMES[message["type"]]
            state = RouteState(
                own=message["proto"] == PROTOCOL,
                kind=kind,
                via=message.get_attr("RTA_GATEWAY") or "",
                # The kernel reports `lo` for IPv6 routes without a next hop.
                device=names.get(message.get_attr("RTA_OIF"), "") if kind == "unicast" else "",
                source=message.get_attr("RTA_PREFSRC") or "",
                mtu=(metrics.get_attr("RTAX_MTU") or 0) if metrics else 0,
                on_link=bool(message["flags"] & RTNH_F_ONLINK),
                message=message,
            )
            key = (route_table(message), destination(message, family), message.get_attr("RTA_PRIORITY") or 0)
            if key not in found or state.own:
                found[key] = state
    return found


def _rules(netlink) -> tuple[tuple, tuple[RuleState, ...]]:
    own, foreign = [], []
    for family, number in FAMILIES.items():
        for message in netlink.get_rules(family=number):
            prefix, source = message.get_attr("FRA_DST"), message.get_attr("FRA_SRC")
            ports = (message.get_attr("FRA_SPORT_RANGE") or ":").partition(":")
            mask = message.get_attr("FRA_FWMASK")
            state = RuleState(
                family,
                message.get_attr("FRA_PRIORITY") or 0,
                f"{prefix}/{message['dst_len']}" if prefix else "",
                message.get_attr("FRA_FWMARK") or 0,
                message.get_attr("FRA_TABLE") or message["table"],
                f"{source}/{message['src_len']}" if source else "",
                int(ports[0]) if ports[0] and ports[0] == ports[2] else 0,
                WHOLE_MARK if mask is None else mask,
                bool(message["flags"] & FIB_RULE_INVERT),
                message.get_attr("FRA_GOTO") or 0,
            )
            protocol = message.get_attr("FRA_PROTOCOL")
            if protocol == PROTOCOL:
                own.append((state if _is_plain(message, state) else None, message))
            elif protocol not in (RTPROT_KERNEL, ROUTED):
                foreign.append(state)
    return tuple(own), tuple(foreign)


def _is_plain(message, state: RuleState) -> bool:
    """Return whether a rule has no selectors besides those of `RuleState`."""
    names = ("FRA_IIFNAME", "FRA_OIFNAME", "FRA_IP_PROTO", "FRA_DPORT_RANGE")
    others = any(message.get_attr(name) for name in names)
    others |= bool(message.get_attr("FRA_SPORT_RANGE")) != bool(state.source_port)
    lookup = message["action"] == FR_ACT_TO_TBL and not state.inverted
    return not others and (lookup or message["action"] == FR_ACT_GOTO)


def _neighbours(netlink, names: dict[int, str]) -> dict[tuple[str, str], NeighbourState]:
    found = {}
    for number in FAMILIES.values():
        for message in netlink.get_neighbours(family=number):
            key = names.get(message["ifindex"], ""), message.get_attr("NDA_DST")
            found[key] = NeighbourState(
                message.get_attr("NDA_PROTOCOL") == PROTOCOL,
                bool(message["state"] & NEIGHBOUR_PERMANENT),
                message.get_attr("NDA_LLADDR") or "",
            )
    return found


def route_state(route: HostRoute) -> RouteState:
    """Return a desired route as it is when it is there."""
    return RouteState(
        True, route.kind, route.via, route.device if route.kind == "unicast" else "", route.source, route.mtu,
        route.on_link,
    )  # fmt: skip


def comparable(route: RouteState) -> tuple:
    """Return what has to be equal for a desired route to be there."""
    return route.kind, route.via, route.device, route.source, route.mtu, route.on_link


def route_text(route: RouteState) -> dict:
    """Return what a list of changes shows of a route."""
    values = {
        "kind": route.kind, "via": route.via, "device": route.device, "source": route.source, "mtu": route.mtu,
        "on link": route.on_link,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value}
