# SPDX-License-Identifier: Apache-2.0
"""Tunnel overhead, and which networks have an MTU too large for the hosts' underlay.

Geneve as OVN uses it (ovn-architecture, "Tunnel Encapsulations"): inner Ethernet header, Geneve header with one option
of eight bytes, UDP, and the underlay's IP header.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..common.addressing import family
from ..store.snapshot import Snapshot, StoredObject
from .networks import NETWORK_KINDS

_INNER_ETHERNET, _GENEVE, _UDP = 14, 16, 8
_IP = {4: 20, 6: 40}


def overhead(underlay_family: int) -> int:
    """Return how many bytes a tunnelled packet has more than the packet inside: 58 over IPv4, 78 over IPv6."""
    return _INNER_ETHERNET + _GENEVE + _UDP + _IP[underlay_family]


def largest(node: StoredObject) -> int | None:
    """Return the largest network MTU that a host's underlay permits; None while the underlay MTU is unknown."""
    mtu, addresses = node.spec.get("underlay_mtu"), node.spec.get("encap_ips") or []
    if not mtu or not addresses:
        return None
    return mtu - max(overhead(family(address)) for address in addresses)


def check_path_mtu(snapshot: Snapshot) -> Iterator[tuple[str, str, str, str]]:
    """Reject networks whose packets would not fit into a tunnel between two hosts."""
    limits = {node.name: limit for node in snapshot.of_kind("Node") if (limit := largest(node)) is not None}
    if not limits:
        return
    narrowest = min(limits, key=lambda name: (limits[name], name))
    wanted = [("Settings", "mtu", snapshot.settings["mtu"])] + [
        (entry.key, "spec.mtu", entry.spec["mtu"] or 0)
        for entry in snapshot.of_kind(*NETWORK_KINDS)
        if entry.spec["topology"] != "Localnet"
    ]
    for key, path, mtu in wanted:
        if mtu > limits[narrowest]:
            yield (
                key, path,
                f"{mtu} does not fit into the tunnels of {narrowest}, whose underlay has room for {limits[narrowest]}",
                f"use {limits[narrowest]} or less, or raise the underlay's MTU on all hosts",
            )  # fmt: skip
