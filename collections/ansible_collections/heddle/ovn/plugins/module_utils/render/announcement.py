# SPDX-License-Identifier: Apache-2.0
"""Frames that announce MACs; those for a virtual machine after a migration, when its gateway may have another one.

While gateway routers are on the switch, each has its own MAC and link-local address, and a migrated VM keeps
using those of its former node (OKEP-5094, "Virtual machine live migration and default gateway"). As in
ovn-kubernetes, a gratuitous ARP announces the gateway's MAC, and router advertisements the IPv6 routers: the new
router with infinite lifetime, and each other router with lifetime zero, which removes it.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from ..common.addressing import family, link_local_address, plain
from ..common.naming import host_interface
from .common.node_network import NodeNetwork, attachments, first_mac
from .host.vswitch import HOST_END
from .topology.layer2_legacy import has_transit_router
from .topology.layer2_transition import is_open

_BROADCAST = b"\xff" * 6
_ARP, _IPV6 = 0x0806, 0x86DD
_ARP_REQUEST = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1)
_ICMPV6, _ADVERTISEMENT, _SOURCE_LINK_LAYER = 58, 134, 1
_NEIGHBOUR, _TARGET_LINK_LAYER, _OVERRIDE = 136, 2, 0x20000000
_ALL_NODES = "ff02::1"
_VLAN = 0x8100
_HOP_LIMIT = 255
# "Addresses come from DHCPv6", and a preference below that of routes from elsewhere (RFC 4861, 4.2; RFC 4191, 2.2).
_MANAGED, _LOW = 0x80, 0x18
_ENDLESS = 0xFFFF


@dataclass(frozen=True)
class Announcement:
    """A frame for one workload: the host's link to send it on, and which router it announces for how many seconds."""

    host_name: str
    router: str
    mac: str
    lifetime: int | None
    frame: bytes


def render_announcements(plan: dict, node: str, workload: str) -> list[Announcement]:
    """Return the announcements for a workload (`namespace/name`) on its new node; none where all nodes have the same.

    With the transit router, all nodes' routers are the same to a workload.
    """
    found = []
    interfaces = [one for one in plan["workloads"][workload]["interfaces"] if one["role"] == "primary"]
    for interface in interfaces:
        view = NodeNetwork(plan, interface["network"], node, attachments(plan)[interface["network"]])
        if is_open(view):
            found += _announcements(view, interface)
    return found


def _announcements(view: NodeNetwork, interface: dict) -> list[Announcement]:
    link = host_interface(interface["port"], HOST_END)
    shared = first_mac(view.gateway_interfaces())
    own = shared if has_transit_router(view) else view.gateway_router_mac()
    macs = {shared, *(view.gateway_router_mac(name) for name in view.plan["nodes"])}
    found = []
    for gateway in map(plain, view.gateway_interfaces()):
        if family(gateway) == 4:
            found.append(Announcement(link, gateway, own, None, gratuitous_arp(own, gateway)))
    for address in map(plain, interface["addresses"]):
        if family(address) == 6:
            ends = (interface["mac"], address)
            # The new router comes first, so that there is always a default route.
            found.append(_router(link, own, ends, _ENDLESS))
            found += [_router(link, mac, ends, 0) for mac in sorted(macs - {own})]
    return found


def _router(link: str, mac: str, ends: tuple[str, str], lifetime: int) -> Announcement:
    return Announcement(link, link_local_address(mac), mac, lifetime, router_advertisement(mac, *ends, lifetime))


def gratuitous_arp(mac: str, address: str) -> bytes:
    """Return the frame in which an address asks for itself, so that all know its MAC (RFC 5227, section 3)."""
    sender = _octets(mac) + ipaddress.IPv4Address(address).packed
    target = bytes(6) + ipaddress.IPv4Address(address).packed
    return _BROADCAST + _octets(mac) + struct.pack("!H", _ARP) + _ARP_REQUEST + sender + target


def neighbour_advertisement(mac: str, address: str) -> bytes:
    """Return the frame that announces the MAC of an IPv6 address to all nodes (RFC 4861, 7.2.6)."""
    packed = ipaddress.IPv6Address(address).packed
    message = struct.pack("!BBHI", _NEIGHBOUR, 0, 0, _OVERRIDE) + packed
    message += struct.pack("!BB", _TARGET_LINK_LAYER, 1) + _octets(mac)
    all_nodes = ipaddress.IPv6Address(_ALL_NODES).packed
    # RFC 2464, section 7.
    group = b"\x33\x33" + all_nodes[-4:]
    return group + _octets(mac) + struct.pack("!H", _IPV6) + _icmpv6(packed + all_nodes, message)


def tagged(frame: bytes, vlan: int) -> bytes:
    """Return a frame with a VLAN tag (IEEE 802.1Q)."""
    return frame[:12] + struct.pack("!HH", _VLAN, vlan) + frame[12:]


def router_advertisement(mac: str, target_mac: str, target: str, lifetime: int) -> bytes:
    """Return a router advertisement to one VM with a lifetime in seconds (RFC 4861, 4.2)."""
    source = ipaddress.IPv6Address(link_local_address(mac)).packed
    ends = source + ipaddress.IPv6Address(target).packed
    # A router with lifetime zero has no preference (RFC 4191, 2.2).
    flags = _MANAGED | _LOW if lifetime else _MANAGED
    option = struct.pack("!BB", _SOURCE_LINK_LAYER, 1) + _octets(mac)
    message = struct.pack("!BBHBBHII", _ADVERTISEMENT, 0, 0, _HOP_LIMIT, flags, lifetime, 0, 0) + option
    return _octets(target_mac) + _octets(mac) + struct.pack("!H", _IPV6) + _icmpv6(ends, message)


def _icmpv6(ends: bytes, message: bytes) -> bytes:
    """Return the packet of a message without checksum; `ends` are source and destination."""
    total = _checksum(ends + struct.pack("!II", len(message), _ICMPV6) + message)
    message = message[:2] + struct.pack("!H", total) + message[4:]
    return struct.pack("!IHBB", 6 << 28, len(message), _ICMPV6, _HOP_LIMIT) + ends + message


def _octets(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF
