# SPDX-License-Identifier: Apache-2.0
"""Which keys of networks and ports there are: those that the encapsulation carries."""

from __future__ import annotations

from dataclasses import dataclass

from ...store.encapsulation import encapsulation_of
from ...store.snapshot import Snapshot
from ...types.encapsulation import VXLAN


@dataclass(frozen=True)
class KeyRanges:
    """Ranges, each with its first and last number.

    `base` is the key of network 0. `local` is how many datapaths a host may have besides those with the same key on all
    hosts, None for more than ever are needed.
    """

    base: int
    network_ids: tuple[int, int]
    routers: tuple[int, int]
    node_ids: tuple[int, int]
    ports: tuple[int, int]
    ports_beside_router: tuple[int, int]
    local: int | None = None

    def of_network(self, network_id: int) -> int:
        """Return the key of a network's transit switch or Layer2 switch (OKEP-5094, "Tunnel keys")."""
        return self.base + network_id


TUNNEL_KEY_BASE = 16711683
DYNAMIC_TUNNEL_KEYS = (16715779, 16777215)
NETWORK_IDS = (1, 4095)
NODE_IDS = (2, 4999)
# The first nine keys of a switch with a transit router are the router's (OKEP-5094, "Tunnel keys").
PORT_TUNNEL_IDS = (1, 32766)
PORT_TUNNEL_IDS_BESIDE_ROUTER = (10, 32766)
# A network has 12 bits in the header of VXLAN, of which ovn-northd gives keys below 1024 to datapaths of a host of its
# own (ovn-nb(5), `ic-vxlan_mode`). A port has 11 (ovn-architecture(7), "Tunnel Encapsulations"); some are left for
# ports whose key northd chooses. A host's port of a transit router has the key 10 + node id.
_VXLAN = KeyRanges(
    base=1024, network_ids=(1, 1535), routers=(2560, 4095), node_ids=(2, 2037), ports=(1, 2000),
    ports_beside_router=(10, 2000), local=1023,
)  # fmt: skip


def key_ranges(snapshot: Snapshot) -> KeyRanges:
    """Return the ranges of a cluster."""
    if encapsulation_of(snapshot) is VXLAN:
        return _VXLAN
    return KeyRanges(
        TUNNEL_KEY_BASE, NETWORK_IDS, DYNAMIC_TUNNEL_KEYS, NODE_IDS, PORT_TUNNEL_IDS, PORT_TUNNEL_IDS_BESIDE_ROUTER
    )
