# SPDX-License-Identifier: Apache-2.0
"""Data classes of Heddle's nftables tables.

Three tables are Heddle's as a whole: `inet heddle` belongs to the gateways, `inet heddle-userspace` to the
uplinks of a userspace datapath, `inet heddle-egress` is in the namespaces of Egress routers and their clients.
Types, rules and elements are written as in a file for nft(8).
"""

from __future__ import annotations

from dataclasses import dataclass

FAMILY = "inet"
TABLE = "heddle"
USERSPACE_TABLE = "heddle-userspace"
# In namespaces of workloads.
EGRESS_TABLE = "heddle-egress"
OWN_TABLES = frozenset([TABLE, USERSPACE_TABLE, EGRESS_TABLE])


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain and its rules in order; one without `hook` is a jump target.

    `kind` is `filter`, `nat` or `route`; `priority` a name (`filter`, `mangle`, `srcnat`, `dstnat`) or a number.
    A rule may end with `comment "TEXT"`.
    """

    name: str
    rules: tuple[str, ...] = ()
    hook: str = ""
    kind: str = "filter"
    priority: str = "filter"
    policy: str = "accept"


@dataclass(frozen=True, slots=True)
class Set:
    """A named set; `type` is `ipv4_addr . inet_proto . inet_service`, for instance, `flags` may hold `interval`."""

    name: str
    type: str
    elements: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Map:
    """A named map or, when `value` is `verdict`, a verdict map; elements are `KEY : VALUE`."""

    name: str
    type: str
    value: str
    elements: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Firewall:
    """A whole table; empty means that there is none."""

    chains: tuple[Chain, ...] = ()
    sets: tuple[Set, ...] = ()
    maps: tuple[Map, ...] = ()
    table: str = TABLE
