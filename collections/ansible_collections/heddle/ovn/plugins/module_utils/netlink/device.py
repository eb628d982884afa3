# SPDX-License-Identifier: Apache-2.0
"""Reads and moves the IP configuration of one NIC: its addresses and the routes through it.

It decides nothing; `uplink_migration.py` does. Addresses and routes keep all their attributes, so that they can be set
identically on another device.
"""

from __future__ import annotations

import errno
import functools
import socket
from collections.abc import Callable
from dataclasses import dataclass

from ..types.host_network import PROTOCOL
from .kernel import NetlinkFailure, read_whole
from .protocol.messages import FAMILIES, address_flags, address_text, destination, is_up, route_table
from .protocol.rtnetlink import (
    IFA_F_NODAD,
    IFA_F_PERMANENT,
    RT_SCOPE_UNIVERSE,
    RT_TABLE_LOCAL,
    RT_TABLE_MAIN,
    RTN_UNICAST,
    RTNH_F_ONLINK,
    RTPROT_KERNEL,
    RTPROT_RA,
)

try:
    from pyroute2 import IPRoute
    from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST
    from pyroute2.netlink.rtnl import RTM_GETROUTE, RTM_NEWADDR, RTM_NEWROUTE
    from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
    from pyroute2.netlink.rtnl.rtmsg import rtmsg

    from .reader import AddressMessage
except ImportError:
    IPRoute = None

# Routes that the kernel makes itself with an address, those from router advertisements (rtnetlink(7)), and those of
# the gateways, which are set after the bridge.
_OTHERS_ROUTES = (RTPROT_KERNEL, RTPROT_RA, PROTOCOL)


@dataclass(frozen=True)
class Held:
    """One address or route: `text` is its readable form, `message` the kernel's message."""

    text: str
    message: object


@dataclass(frozen=True)
class Device:
    """A NIC: `addresses` of global scope, configured `routes`, and `leased` addresses.

    Addresses and routes that the gateways add to a bridge are not included.

    A leased address has a limited lifetime; it belongs to a DHCP client.
    """

    index: int
    mac: str
    mtu: int
    up: bool
    addresses: tuple[Held, ...]
    routes: tuple[Held, ...]
    leased: tuple[str, ...]

    def texts(self) -> dict:
        """Return addresses and routes for a change list."""
        return {"addresses": [item.text for item in self.addresses], "routes": [item.text for item in self.routes]}


def _none_when_gone(read: Callable) -> Callable:
    """Return None where the link goes while it is read, as Open vSwitch removes the devices of its bridges."""

    @functools.wraps(read)
    def tried(name: str):
        try:
            return read(name)
        except NetlinkFailure as error:
            if error.code != errno.ENODEV:
                raise
            return None

    return tried


@_none_when_gone
@read_whole
def read_device_mac(name: str) -> str | None:
    """Return the MAC of a NIC, or None when there is none of that name."""
    with IPRoute() as netlink:
        found = netlink.link_lookup(ifname=name)
        return netlink.get_links(found[0])[0].get_attr("IFLA_ADDRESS") if found else None


@_none_when_gone
@read_whole
def read_device(name: str) -> Device | None:
    """Return a link of the current namespace with its global addresses and its routes; None when there is none.

    Heddle's own addresses and routes (protocol 85) are left out. NetlinkFailure when the kernel rejects the request.
    """
    with IPRoute(strict_check=True) as netlink:
        netlink.marshal.msg_map = {**netlink.marshal.msg_map, RTM_NEWADDR: AddressMessage}
        found = netlink.link_lookup(ifname=name)
        if not found:
            return None
        link = netlink.get_links(found[0])[0]
        addresses, leased = [], []
        for message in netlink.get_addr(index=found[0]):
            text = address_text(message)
            if message["scope"] != RT_SCOPE_UNIVERSE or message.get_attr("IFA_PROTO") == PROTOCOL:
                continue
            if address_flags(message) & IFA_F_PERMANENT:
                addresses.append(Held(text, message))
            elif message["family"] == socket.AF_INET:
                leased.append(text)
        return Device(
            index=found[0],
            mac=link.get_attr("IFLA_ADDRESS"),
            mtu=link.get_attr("IFLA_MTU"),
            up=is_up(link),
            addresses=tuple(sorted(addresses, key=lambda item: ":" in item.text)),
            routes=tuple(_routes(netlink, found[0])),
            leased=tuple(leased),
        )


def _routes(netlink, index: int) -> list[Held]:
    """Return the routes in the order in which they can be added: those without a gateway first."""
    found = []
    for family, number in FAMILIES.items():
        for message in _dumped_routes(netlink, number, device=index):
            table = route_table(message)
            on_device = message.get_attr("RTA_OIF") == index and message["type"] == RTN_UNICAST
            if on_device and table != RT_TABLE_LOCAL and message["proto"] not in _OTHERS_ROUTES:
                found.append(Held(_route_text(message, family, table), message))
    return sorted(found, key=lambda item: (bool(item.message.get_attr("RTA_GATEWAY")), item.text))


def _dumped_routes(netlink, family: int, *, device: int = 0, protocol: int = 0):
    """Return the routes through a device, or of a protocol (0: of any).

    The kernel selects them, if the socket has strict checking: a host with many workloads has thousands of others.
    """
    message = rtmsg()
    message["family"], message["proto"] = family, protocol
    message["attrs"] = [("RTA_OIF", device)] if device else []
    return netlink.nlm_request(message, RTM_GETROUTE, msg_flags=NLM_F_REQUEST | NLM_F_DUMP)


def _route_text(message, family: int, table: int) -> str:
    text = destination(message, family)
    for word, attribute in (("via", "RTA_GATEWAY"), ("metric", "RTA_PRIORITY"), ("src", "RTA_PREFSRC")):
        if message.get_attr(attribute):
            text += f" {word} {message.get_attr(attribute)}"
    return text if table == RT_TABLE_MAIN else f"{text} table {table}"


def default_gateways(device: Device) -> list[str]:
    """Return the gateways of a device's default routes in the main table, IPv4 first."""
    gateways = []
    for route in device.routes:
        message = route.message
        main = route_table(message) == RT_TABLE_MAIN
        if message["dst_len"] == 0 and main and message.get_attr("RTA_GATEWAY"):
            gateways.append(message.get_attr("RTA_GATEWAY"))
    return sorted(dict.fromkeys(gateways), key=lambda gateway: ":" in gateway)


@read_whole
def advertised_interfaces() -> list[str]:
    """Return the uplinks with a default route that the kernel itself learned from router advertisements.

    systemd-networkd and NetworkManager process them in userspace and disable the kernel's processing (accept_ra 0).
    """
    found = set()
    with IPRoute(strict_check=True) as netlink:
        for message in _dumped_routes(netlink, socket.AF_INET6, protocol=RTPROT_RA):
            if message["dst_len"] == 0 and message["proto"] == RTPROT_RA and message.get_attr("RTA_OIF"):
                found.add(netlink.get_links(message.get_attr("RTA_OIF"))[0].get_attr("IFLA_IFNAME"))
    return sorted(name for name in found if _accepts_advertisements(name))


def _accepts_advertisements(name: str) -> bool:
    try:
        with open(f"/proc/sys/net/ipv6/conf/{name}/accept_ra", encoding="ascii") as text:
            return int(text.read()) > 0
    except OSError:
        return False


def add_address(index: int, address: Held) -> None:
    """Add another device's address to a device, without duplicate address detection; no change if it has it."""
    message = ifaddrmsg()
    for name in ("family", "prefixlen", "scope"):
        message[name] = address.message[name]
    message["index"] = index
    flags = address_flags(address.message) & ~IFA_F_PERMANENT
    if address.message["family"] == socket.AF_INET6:
        flags |= IFA_F_NODAD
    message["flags"] = flags & 0xFF
    kept = ("IFA_ADDRESS", "IFA_LOCAL", "IFA_BROADCAST", "IFA_RT_PRIORITY")
    message["attrs"] = [(name, value) for name, value in address.message["attrs"] if name in kept]
    message["attrs"].append(("IFA_FLAGS", flags))
    with IPRoute() as netlink:
        try:
            netlink.nlm_request(
                message, RTM_NEWADDR, msg_flags=NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
            )  # fmt: skip
        except NetlinkFailure as error:
            if error.code != errno.EEXIST:
                raise


def remove_address(index: int, address: Held) -> None:
    """Remove an address from a device."""
    text, _slash, length = address.text.partition("/")
    with IPRoute() as netlink:
        try:
            netlink.addr("del", index=index, address=text, prefixlen=int(length))
        except NetlinkFailure as error:
            if error.code != errno.EADDRNOTAVAIL:
                raise


def move_route(index: int, route: Held) -> None:
    """Change the device of a route in one step: it is never absent."""
    message = rtmsg()
    for name in ("family", "dst_len", "src_len", "tos", "table", "proto", "scope", "type", "flags"):
        message[name] = route.message[name]
    # Flags that the kernel only reports (dead, linkdown, ...) are not accepted by it; "on link" is.
    message["flags"] = route.message["flags"] & RTNH_F_ONLINK
    dropped = ("RTA_OIF", "RTA_CACHEINFO")
    message["attrs"] = [(name, value) for name, value in route.message["attrs"] if name not in dropped]
    message["attrs"].append(("RTA_OIF", index))
    with IPRoute() as netlink:
        netlink.nlm_request(
            message, RTM_NEWROUTE, msg_flags=NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
        )  # fmt: skip
