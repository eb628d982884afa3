# SPDX-License-Identifier: Apache-2.0
"""Data classes of what an Egress has in network namespaces of workloads: tunnels, tables, rules, translation.

Names and numbers are Coil's (v2, "On-demand NAT for egress traffics"), so that its documentation applies.
"""

from __future__ import annotations

from dataclasses import dataclass

from .nftables_ruleset import Firewall

# UDP port of FoU, and the protocol of rules and routes, which is the mark of ownership.
FOU_PORT = 5555
PROTOCOL = 30
# Routes of clients to destinations within private ranges and to others; routers have those to their clients in the
# latter.
NARROW_TABLE, WIDE_TABLE = 117, 118
RETURN_TABLE = WIDE_TABLE
MAIN_TABLE = 254
UPLINK = "eth0"
# A dummy link that is there as long as anything else of this is: made first, removed last.
MARKER = "fou-dummy"
# Of connections to a client that others opened, where these are answered directly.
INBOUND_MARK = 1000
# Devices for what comes from a router's own address, and names for those that the kernel adds by itself.
CATCH_ALL = {4: "coil_ipip4", 6: "coil_ipip6"}
FALLBACK = {"tunl0": "coil_tunl", "ip6tnl0": "coil_ip6tnl"}
# By how many bytes a packet in a tunnel is longer: IP and UDP headers.
OVERHEAD = {4: 20 + 8, 6: 40 + 8}


@dataclass(frozen=True, slots=True)
class Tunnel:
    """FoU from the namespace's own address `local` to `remote`; the kernel chooses `source_port` 0 for each flow.

    `routers` are the addresses that a client's `remote` is translated to.
    """

    name: str
    local: str
    remote: str
    source_port: int
    routers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TunnelRoute:
    """A route of a table into a tunnel."""

    table: int
    to: str
    tunnel: str


@dataclass(frozen=True, slots=True)
class EgressRule:
    """A rule that looks up a table for the packets of a family to a prefix, from a link, with a mark, or all."""

    family: int
    priority: int
    table: int
    to: str = ""
    iif: str = ""
    fwmark: int = 0


@dataclass(frozen=True, slots=True)
class EgressNamespace:
    """All that an Egress has in the namespace of a router or client; `families` are those with a tunnel."""

    namespace: str
    families: tuple[int, ...]
    tunnels: tuple[Tunnel, ...]
    routes: tuple[TunnelRoute, ...]
    rules: tuple[EgressRule, ...]
    firewall: Firewall
    forwards: bool = False
