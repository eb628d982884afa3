# SPDX-License-Identifier: Apache-2.0
"""Data classes of desired OpenFlow flows, flood settings and static MACs."""

from __future__ import annotations

from dataclasses import dataclass

# The owner's mark: the cookies that ovn-kubernetes gives its own flows on a gateway bridge.
DEFAULT_COOKIE = 0xDEFF105
PATH_MTU_COOKIE = 0x0304
ANNOUNCEMENT_COOKIE = 0x0305
# Of flows that Open vSwitch adds for a `learn` action: state that expires, neither desired nor foreign.
LEARNED_COOKIE = 0x0306
OWN_COOKIES = frozenset({DEFAULT_COOKIE, PATH_MTU_COOKIE, ANNOUNCEMENT_COOKIE})


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow of a bridge; `match` and `actions` are written as for `ovs-ofctl add-flow`.

    A port is written `{NAME}` wherever a port number may stand, `in_port={patch-a}` or `output:{eth0}`, and is resolved
    on the host; `LOCAL`, `NORMAL` and the other reserved ports are written as they are. `match` carries neither
    `table`, `priority` nor `cookie`; an empty match is every packet. `cookie` is one of `OWN_COOKIES`.
    """

    bridge: str
    table: int
    priority: int
    match: str
    actions: str
    network: str = ""
    cookie: int = DEFAULT_COOKIE


@dataclass(frozen=True, slots=True)
class FloodPort:
    """Whether a port of a bridge takes part in flooding."""

    bridge: str
    port: str
    flood: bool
    network: str = ""


@dataclass(frozen=True, slots=True)
class StaticMac:
    """A static entry of a bridge's MAC table; `port` is a name, the bridge's own for its local port."""

    bridge: str
    mac: str
    port: str
    vlan: int = 0
    network: str = ""
