# SPDX-License-Identifier: Apache-2.0
"""Data classes of the desired state in a host's own network namespace.

Addresses and prefixes are canonical text: `address/length`, lower case, host bits of a prefix zero.
"""

from __future__ import annotations

from dataclasses import dataclass

# Owner's mark of addresses, routes, rules and neighbours: their kernel attribute `protocol`.
PROTOCOL = 85
# Of the first rule of networks (`render/host/network_rules.py`).
RULE_PRIORITY = 1800
# Of ovn-kubernetes's rules for EgressServices.
EGRESS_SERVICE_PRIORITY = 5000
MAIN_TABLE_NAME = "main"
# The mask of a mark that a rule compares as a whole.
WHOLE_MARK = 0xFFFFFFFF
TABLE_OFFSET = 1000
UNREACHABLE_METRIC = 4278198272


@dataclass(frozen=True, slots=True)
class HostLink:
    """A link made by other software, for example an internal port of Open vSwitch, and its desired settings.

    `mac` "" and `mtu` 0 leave those as they are. `vrf` "" means no VRF, unless it belongs to a foreign one.
    """

    name: str
    mac: str = ""
    mtu: int = 0
    vrf: str = ""
    network: str = ""


@dataclass(frozen=True, slots=True)
class Vrf:
    """A VRF whose table is the index of the link `link` plus `TABLE_OFFSET`.

    `main_routes`: its table has copies of the main table's routes, but for default routes and what Heddle made.
    """

    name: str
    link: str
    network: str = ""
    main_routes: bool = False


@dataclass(frozen=True, slots=True)
class HostAddress:
    """An address of a device. `deprecated`: never chosen as source by itself (preferred lifetime 0, IPv6).

    `prefix_route` False leaves out the route to the prefix that the kernel otherwise adds.
    """

    device: str
    address: str
    deprecated: bool = False
    prefix_route: bool = True
    network: str = ""


@dataclass(frozen=True, slots=True)
class HostRoute:
    """A route in a VRF's table, or in the main table when `vrf` is "".

    `to` is a prefix (`0.0.0.0/0`, `::/0` for the default). `kind` is `unicast`, `unreachable`, `blackhole` or
    `prohibit`; the last three have no device. `mtu` and `metric` 0 leave those to the kernel. `on_link` uses `via`
    although no address of the device is in its subnet.
    """

    to: str
    via: str = ""
    device: str = ""
    source: str = ""
    mtu: int = 0
    vrf: str = ""
    metric: int = 0
    kind: str = "unicast"
    on_link: bool = False
    network: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy rule that looks up the table of a VRF or a link (`link_table`), or the main one.

    `family` is 4 or 6, `to` a prefix or "", `fwmark` 0 for any, `fwmask` the bits of it that count.

    With `goto` it looks up no table: the kernel continues with the rules of that priority, which is above its own, if
    there are any (ip-rule(8)). `inverted`: that is so for all packets but those that the rule describes. Such a rule
    only saves time: what it passes over would not apply to the packet.

    `source` is a prefix or "", `source_port` a port, 0 for any. With `table` it is a table that is not Heddle's: a
    number, or a name as `netlink/named_tables.py` resolves it; a host without such a table has no rule. Links of a VRF
    device of that name forward IPv4, as replies need.
    """

    family: int
    vrf: str
    to: str = ""
    fwmark: int = 0
    priority: int = RULE_PRIORITY
    network: str = ""
    source: str = ""
    source_port: int = 0
    table: str = ""
    fwmask: int = WHOLE_MARK
    inverted: bool = False
    goto: int = 0


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A permanent neighbour: the MAC address that packets to `address` on this device get."""

    device: str
    address: str
    mac: str
    network: str = ""


@dataclass(frozen=True, slots=True)
class Sysctl:
    """A kernel setting; parts of the name are separated by `/`, since names of links contain dots.

    `net/ipv4/conf/ovn-k8s-mp1/rp_filter`. With `minimum` a larger number stays, and the setting may be missing: those
    of the whole kernel are in its first network namespace only.
    """

    name: str
    value: str
    minimum: bool = False
    network: str = ""


@dataclass(frozen=True, slots=True)
class HostNetwork:
    """All of it. Marked objects that are not listed here are removed.

    `link_tables` are links that have a table of their own, with the index of the link plus `TABLE_OFFSET` as a number
    and copies of the main table's routes by that link. Rules and routes name it by `link_table`.
    """

    links: tuple[HostLink, ...] = ()
    vrfs: tuple[Vrf, ...] = ()
    addresses: tuple[HostAddress, ...] = ()
    routes: tuple[HostRoute, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    sysctls: tuple[Sysctl, ...] = ()
    link_tables: tuple[str, ...] = ()


def link_table(link: str) -> str:
    """Return the name of a link's own table, as `HostRoute.vrf` and `Rule.vrf` have it; no VRF has such a name."""
    return f"table of {link}"
