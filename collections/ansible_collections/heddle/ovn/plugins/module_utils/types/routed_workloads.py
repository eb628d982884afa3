# SPDX-License-Identifier: Apache-2.0
"""Data classes of a host's routed workloads (Coil v2, "Intra-node routing" and "Inter-node routing").

Numbers and addresses are Coil's; table 120 and its rule are Heddle's own.
"""

from __future__ import annotations

from dataclasses import dataclass

# Owner's mark of rules and routes: their protocol.
PROTOCOL = 30
# Routes to the workloads of this host, the blocks that BIRD reads, and the blocks of other hosts that it learned.
WORKLOAD_TABLE, EXPORT_TABLE, LEARNED_TABLE = 116, 119, 120
# Rules of all packets, by table.
RULES = {WORKLOAD_TABLE: 2000, LEARNED_TABLE: 2001}
# The host's end of every link has these; they are the gateways of the workload. With NODE_ADDRESS (Coil since 2.0.13)
# the IPv4 one is an address of the node instead.
GATEWAYS = {4: "169.254.1.1/32", 6: "fe80::1/64"}
LINK_LOCAL, NODE_ADDRESS = "link_local", "node_address"


@dataclass(frozen=True, slots=True)
class RoutedLink:
    """The host's end of a workload's link, and the workload's addresses (without prefix length).

    `gateways` are the addresses of the host's end, with prefix length, of the families that the workload has.
    """

    name: str
    addresses: tuple[str, ...]
    network: str
    gateways: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoutedWorkloads:
    """All of a host's. `blocks` are the CIDRs of the host's blocks; `is_used` is False when nothing is to be there.

    `reserved` are those of `blocks` whose addresses something else has, which makes the routes to them.
    """

    links: tuple[RoutedLink, ...] = ()
    blocks: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    is_used: bool = False
