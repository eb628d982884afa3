# SPDX-License-Identifier: Apache-2.0
"""Frames by which a host announces the egress addresses that it has got: neighbours may know them elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from ...common.addressing import family
from ..announcement import gratuitous_arp, neighbour_advertisement, tagged
from ..common.provider import provider_of


def render_egress_announcements(plan: dict, node: str, addresses: Iterable[str]) -> list[bytes]:
    """Return a gratuitous ARP or an unsolicited neighbour advertisement for each address, as the uplink sends it."""
    provider = provider_of(plan["nodes"][node])
    if provider is None:
        return []
    frames = [announcement(provider.mac, address) for address in addresses]
    return [tagged(frame, provider.vlan) for frame in frames] if provider.vlan else frames


def announcement(mac: str, address: str) -> bytes:
    """Return the frame that announces an address with a MAC."""
    return gratuitous_arp(mac, address) if family(address) == 4 else neighbour_advertisement(mac, address)
