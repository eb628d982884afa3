# SPDX-License-Identifier: Apache-2.0
"""Encapsulation of packets between hosts: the tunnels of the overlay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Encapsulation:
    """A kind of tunnel that OVN knows (ovn-sb(5), "Encap TABLE").

    `kind` is the column `type`, `options` the column of that name. `udp_port` is the destination port. `overhead` has,
    by the IP version of the underlay, how many bytes a tunnelled packet is longer than the IP packet inside, so the
    largest MTU of a network is the underlay's less that.
    """

    kind: str
    udp_port: int
    overhead: Mapping[int, int]
    options: Mapping[str, str] = field(default_factory=dict)


def _overhead(header: int) -> dict[int, int]:
    """IP and UDP outside, a tunnel header of so many bytes, and the Ethernet header of the packet inside."""
    ethernet, udp = 14, 8
    return {4: 20 + udp + header + ethernet, 6: 40 + udp + header + ethernet}


# RFC 8926: a header of 8 bytes and, as OVN sends it, one option of 8 (ovn-architecture(7), "Tunnel Encapsulations").
# 58 bytes over IPv4, 78 over IPv6, which are ovn-kubernetes's GeneveHeaderLengthIPv4 and GeneveHeaderLengthIPv6
# (go-controller/pkg/types/const.go).
GENEVE = Encapsulation("geneve", 6081, _overhead(8 + 8), {"csum": "true"})
# RFC 7348, section 5: a header of 8 bytes; 50 and 70 bytes.
VXLAN = Encapsulation("vxlan", 4789, _overhead(8), {"csum": "true"})
# VXLAN of the mesh, whose frames have one VLAN tag more, in ESP with AES-GCM (RFC 4106): SPI, sequence number and
# initialization vector of 16 bytes, two bytes behind the packet with up to 3 of padding, and a tag of 16.
ENCRYPTED_MESH = _overhead(8 + 4 + 16 + 2 + 3 + 16)
# What OVN's networks may have, one for all hosts of a cluster.
OVERLAYS = {overlay.kind: overlay for overlay in (GENEVE, VXLAN)}
