# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the kernel's links, addresses and routes through pyroute2.

It decides nothing; `workload_links.py` and `reconcile.py` do. Network namespaces are entered only to open
a netlink socket in them, which then stays there, so no process is started.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import socket
import struct
import time
import traceback

from ..types.host_network import PROTOCOL
from .link_settings import silence
from .protocol import ethtool
from .protocol.messages import FAMILIES
from .protocol.raw_messages import attributes, decoded
from .protocol.raw_socket import CREATE, EXCLUSIVE, REPLACE, DumpInterrupted, RawSocket, attribute
from .protocol.rtnetlink import (
    IFA_ADDRESS,
    IFA_F_NODAD,
    IFA_F_PERMANENT,
    IFA_FLAGS,
    IFA_LOCAL,
    IFA_PROTO,
    IFADDRMSG,
    IFF_UP,
    IFINFOMSG,
    IFLA_ADDRESS,
    IFLA_AF_SPEC,
    IFLA_EXT_MASK,
    IFLA_GROUP,
    IFLA_IFALIAS,
    IFLA_IFNAME,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINK,
    IFLA_LINKINFO,
    IFLA_MTU,
    IFLA_NET_NS_FD,
    IFLA_PROMISCUITY,
    RT_SCOPE_LINK,
    RT_SCOPE_UNIVERSE,
    RT_TABLE_MAIN,
    RTA_DST,
    RTA_GATEWAY,
    RTA_OIF,
    RTEXT_FILTER_SKIP_STATS,
    RTM_DELADDR,
    RTM_DELROUTE,
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWROUTE,
    RTM_SETLINK,
    RTMSG,
    RTN_UNICAST,
    U32,
)

try:
    from pyroute2 import IPRoute
    from pyroute2 import netns as network_namespace
    from pyroute2.netlink import exceptions

    # Exceptions for errors that the kernel returns.
    NetlinkFailure = exceptions.NetlinkError
    _Interrupted = exceptions.NetlinkDumpInterrupted
    PYROUTE2_IMPORT_ERROR = None
except ImportError:
    NetlinkFailure = OSError
    _Interrupted = InterruptedError
    PYROUTE2_IMPORT_ERROR = traceback.format_exc()

_NEW_NETWORK = 0x40000000
# linux/veth.h, if_link.h, ipv6.h.
_VETH_INFO_PEER = 1
_INET6_CONF, _ROUTER_SOLICITATIONS, _DISABLE_IPV6, _ACCEPT_DAD, _ADDR_GEN_MODE = 2, 7, 26, 27, 47
_INET_CONF, _ARP_IGNORE = 1, 18
_NO_STATISTICS = IFINFOMSG.pack(0, 0, 0, 0, 0) + attribute(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
_ANY = {socket.AF_INET: bytes(4), socket.AF_INET6: bytes(16)}
_INET6_ADDR_GEN_MODE, _GENERATE_NONE = 8, b"\x01"
_WITHOUT_ADDRESSES = attribute(
    IFLA_AF_SPEC, attribute(socket.AF_INET6, attribute(_INET6_ADDR_GEN_MODE, _GENERATE_NONE))
)
_NAMESPACES = "/var/run/netns"
_READINGS, _PAUSE_SECONDS = 20, 0.01


def read_whole(function):
    """Decorator for dumps: repeats one that was inconsistent because of a concurrent change (NLM_F_DUMP_INTR)."""

    @functools.wraps(function)
    def reading(*arguments, **named):
        for number in range(1, _READINGS):
            try:
                return function(*arguments, **named)
            except (_Interrupted, DumpInterrupted):
                time.sleep(number * _PAUSE_SECONDS)
        return function(*arguments, **named)

    return reading


@contextlib.contextmanager
def in_netns(namespace: str | None):
    """Run in a network namespace; None keeps the current one. OSError when there is none of that name."""
    if namespace is None:
        yield
        return
    network_namespace.pushns()
    try:
        # By a descriptor: pyroute2 takes ASCII names only, and a foreign namespace may have another one.
        descriptor = os.open(f"{_NAMESPACES}/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            network_namespace.setns(descriptor)
        finally:
            os.close(descriptor)
        yield
    finally:
        network_namespace.popns()


def is_namespace(name: str) -> bool:
    """Return whether a name among `namespaces` leads to a namespace; OSError where that cannot be found out."""
    try:
        with in_netns(name):
            return True
    except OSError as error:
        # No file any more, or one without a namespace on it (setns(2)).
        if error.errno in (errno.ENOENT, errno.EINVAL):
            return False
        raise


@contextlib.contextmanager
def scratch():
    """Run in an empty, unnamed network namespace, which is removed with this block or this process."""
    with open("/proc/thread-self/ns/net", encoding="utf-8") as home:
        _call_kernel("unshare", _NEW_NETWORK)
        try:
            yield
        finally:
            _call_kernel("setns", home.fileno(), _NEW_NETWORK)


def _call_kernel(name: str, *arguments: int) -> None:
    """Call a function of the C library that Python offers only since 3.12."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def namespaces() -> list[str]:
    """Return the named network namespaces of the host."""
    return sorted(network_namespace.listnetns())


@read_whole
def read_links(namespace: str | None) -> dict[str, dict]:
    """Return the links of a namespace by name: `mac`, `mtu`, `up`, `alias`, `kind`, `index`, `addresses`, `routes`.

    `peer` is the index of the other end of a veth in its own namespace (rtnetlink(7), IFLA_LINK). Addresses are the
    permanent ones of global scope; routes are those that carry Heddle's protocol. `solicits` is whether the link asks
    for IPv6 routers, `detects` whether it looks for duplicates of its IPv6 addresses. `link-local` has its IPv6
    addresses of that scope with who set them (IFA_PROTO), `derives` whether the kernel makes one from the MAC.
    `answers`: the link answers ARP for all addresses of the host; `ipv6`: the host has IPv6 there; `promiscuous`: a
    program or bridge receives all frames. `group` is the link's group, 0 where none was set.
    """
    with in_netns(namespace), RawSocket() as netlink:
        links = dict(map(_link, netlink.dump(RTM_GETLINK, _NO_STATISTICS)))
        by_index = {link["index"]: link for link in links.values()}
        for message in netlink.dump(RTM_GETADDR, IFADDRMSG.pack(0, 0, 0, 0, 0)):
            family, length, flags, scope, index = IFADDRMSG.unpack_from(message)
            found = attributes(message[IFADDRMSG.size :])
            flags = U32.unpack(found[IFA_FLAGS])[0] if IFA_FLAGS in found else flags
            if index not in by_index or not flags & IFA_F_PERMANENT:
                continue
            text = f"{socket.inet_ntop(family, found.get(IFA_LOCAL) or found[IFA_ADDRESS])}/{length}"
            if scope == RT_SCOPE_UNIVERSE:
                by_index[index]["addresses"].add(text)
            elif scope == RT_SCOPE_LINK and family == socket.AF_INET6:
                by_index[index]["link-local"][text] = found.get(IFA_PROTO, b"\0")[0]
        if namespace is not None:
            _read_routes(netlink, by_index)
            _read_offloads(links)
        return links


def _read_offloads(links: dict[str, dict]) -> None:
    """Read whether veths leave checksums to their other end; a link that has gone since the list was made goes here."""
    # A name with escapes is not the one by which the kernel knows the link, and none of Heddle's.
    for name in [name for name, link in links.items() if link["kind"] == "veth" and "\\" not in name]:
        try:
            links[name]["offload"] = ethtool.transmit_checksum(name)
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise
            del links[name]


@read_whole
def read_alias(namespace: str, name: str) -> str | None:
    """Return the alias of a link of a namespace, None where there is no such link or namespace."""
    try:
        with in_netns(namespace), RawSocket() as netlink:
            links = dict(map(_link, netlink.dump(RTM_GETLINK, _NO_STATISTICS)))
    except DumpInterrupted:
        raise
    except OSError:
        return None
    return links[name]["alias"] if name in links else None


def _link(message: bytes) -> tuple[str, dict]:
    _family, _type, index, flags, _change = IFINFOMSG.unpack_from(message)
    found = attributes(message[IFINFOMSG.size :])
    families = attributes(found.get(IFLA_AF_SPEC, b""))
    settings = attributes(families.get(socket.AF_INET6, b"")).get(_INET6_CONF, b"")
    has_ipv6 = bool(settings)
    values = struct.unpack(f"={len(settings) // 4}i", settings) or (0,) * (_ADDR_GEN_MODE + 1)
    settings = attributes(families.get(socket.AF_INET, b"")).get(_INET_CONF, b"")
    values4 = struct.unpack(f"={len(settings) // 4}i", settings) or (0,) * (_ARP_IGNORE + 1)
    return decoded(found[IFLA_IFNAME]), {
        "index": index,
        "peer": U32.unpack(found[IFLA_LINK])[0] if IFLA_LINK in found else None,
        "mac": found[IFLA_ADDRESS].hex(":") if IFLA_ADDRESS in found else None,
        "mtu": U32.unpack(found[IFLA_MTU])[0],
        "up": bool(flags & IFF_UP),
        "alias": decoded(found.get(IFLA_IFALIAS, b"")),
        "kind": decoded(attributes(found.get(IFLA_LINKINFO, b"")).get(IFLA_INFO_KIND, b"")),
        "addresses": set(),
        "routes": set(),
        "offload": False,
        "solicits": values[_ROUTER_SOLICITATIONS] != 0,
        "detects": values[_ACCEPT_DAD] > 0,
        "link-local": {},
        "derives": values[_ADDR_GEN_MODE] == 0,
        "answers": values4[_ARP_IGNORE] == 0,
        "group": U32.unpack(found[IFLA_GROUP])[0],
        "promiscuous": U32.unpack(found[IFLA_PROMISCUITY])[0] > 0,
        "ipv6": has_ipv6 and not values[_DISABLE_IPV6],
    }


def _read_routes(netlink: RawSocket, by_index: dict[int, dict]) -> None:
    for number in FAMILIES.values():
        for message in netlink.dump(RTM_GETROUTE, RTMSG.pack(number, 0, 0, 0, 0, PROTOCOL, 0, 0, 0)):
            _family, length, _source, _tos, _table, protocol, *_rest = RTMSG.unpack_from(message)
            found = attributes(message[RTMSG.size :])
            link = by_index.get(U32.unpack(found[RTA_OIF])[0]) if RTA_OIF in found else None
            if protocol == PROTOCOL and link is not None:
                to = socket.inet_ntop(number, found.get(RTA_DST) or _ANY[number])
                gateway = socket.inet_ntop(number, found[RTA_GATEWAY]) if RTA_GATEWAY in found else None
                link["routes"].add((f"{to}/{length}", gateway))


def create_namespace(namespace: str, mark: str) -> None:
    """Create a namespace and mark it on its loopback link, which is also brought up."""
    with scratch():
        # Of this thread; `network_namespace.create` would start a copy of this process.
        network_namespace.attach(namespace, "thread-self")
        with RawSocket() as netlink:
            netlink.request((RTM_NEWLINK, 0, _link_message(1, up=True) + attribute(IFLA_IFALIAS, mark)))


def remove_namespace(namespace: str) -> None:
    """Remove a namespace and the links in it."""
    network_namespace.remove(namespace)


def create_link(namespace: str, link, mark: str) -> None:
    """Create a veth pair: one end on the host, marked and up, the other one up in the namespace.

    The latter first gets the settings that decide what it sends by itself.
    """
    with open(f"{_NAMESPACES}/{namespace}", "rb") as target, RawSocket() as netlink:
        peer = _link_message() + attribute(IFLA_IFNAME, link.name) + attribute(IFLA_MTU, link.mtu)
        peer += attribute(IFLA_ADDRESS, _mac(link.mac)) + attribute(IFLA_NET_NS_FD, target.fileno())
        kind = attribute(IFLA_INFO_KIND, "veth") + attribute(IFLA_INFO_DATA, attribute(_VETH_INFO_PEER, peer))
        name = attribute(IFLA_IFNAME, link.host_name)
        made = _link_message() + name + attribute(IFLA_MTU, link.mtu) + attribute(IFLA_LINKINFO, kind)
        netlink.request((RTM_NEWLINK, CREATE | EXCLUSIVE, made))
        # The switch's end has no use for IPv6 addresses; ovs-vswitchd would read all routes again for each of them.
        netlink.request((RTM_SETLINK, 0, _link_message() + name + _WITHOUT_ADDRESSES))
        netlink.request((RTM_SETLINK, 0, _link_message(up=True) + name + attribute(IFLA_IFALIAS, mark)))
    with in_netns(namespace), RawSocket() as netlink:
        silence(link.name, solicits=link.solicits_routers)
        netlink.request((RTM_SETLINK, 0, _link_message(up=True) + attribute(IFLA_IFNAME, link.name)))


def _link_message(index: int = 0, *, up: bool = False, down: bool = False) -> bytes:
    """Return the fixed part of a message about a link; without an index it has the name as an attribute."""
    return IFINFOMSG.pack(0, 0, index, IFF_UP if up else 0, IFF_UP if up or down else 0)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def create_tap(name: str, user: int) -> None:
    """Create a persistent tap device that a user may open."""
    with IPRoute() as route:
        route.link("add", ifname=name, kind="tuntap", mode="tap", uid=user)


def remove_link(name: str) -> None:
    """Remove a link of the host, and with a veth pair its other end.

    The kernel removes a namespace's links some time after the namespace, so this one may just be disappearing.
    """
    with IPRoute() as route:
        for index in route.link_lookup(ifname=name):
            try:
                route.link("del", index=index)
            except NetlinkFailure as error:
                if error.code != errno.ENODEV:
                    raise


def change_link(
    namespace: str | None, name: str, *, address="", mtu=0, state="", ifalias="", group: int | None = None
) -> None:  # fmt: skip
    """Set attributes of a link; `state` is `up` or `down`. What is empty stays, and the `group` None."""
    message = _link_message(up=state == "up", down=state == "down") + attribute(IFLA_IFNAME, name)
    message += attribute(IFLA_ADDRESS, _mac(address)) if address else b""
    message += attribute(IFLA_MTU, mtu) if mtu else b""
    message += attribute(IFLA_IFALIAS, ifalias) if ifalias else b""
    message += attribute(IFLA_GROUP, group) if group is not None else b""
    with in_netns(namespace), RawSocket() as netlink:
        netlink.request((RTM_SETLINK, 0, message))


def silence_link(namespace: str, name: str, *, solicits: bool) -> None:
    """As `silence`, in a namespace."""
    with in_netns(namespace):
        silence(name, solicits=solicits)


def change_addresses(namespace: str | None, name: str, add: set[str], remove: set[str]) -> None:
    """Add and remove addresses; IPv6 ones are set without duplicate address detection."""
    with in_netns(namespace), RawSocket() as netlink:
        index = socket.if_nametoindex(name)
        for kind, flags, interfaces in (RTM_DELADDR, 0, remove), (RTM_NEWADDR, CREATE | EXCLUSIVE, add):
            for interface in sorted(interfaces):
                text, _slash, length = interface.partition("/")
                family, address = _packed(text)
                no_dad = IFA_F_NODAD if family == socket.AF_INET6 and flags else 0
                message = IFADDRMSG.pack(family, int(length), no_dad, 0, index)
                netlink.request(
                    (kind, flags, message + attribute(IFA_LOCAL, address) + attribute(IFA_ADDRESS, address))
                )


def change_routes(namespace: str, name: str, add: set, remove: set) -> None:
    """Set and remove (destination, gateway) routes through a link; existing and missing ones are no error.

    Without a gateway (None) the destination is on the link; such routes are set first, since gateways may need them.

    A default route that is set on one link replaces that of another one.
    """
    with in_netns(namespace), RawSocket() as netlink:
        index = socket.if_nametoindex(name)
        for kind, flags, routes in (RTM_DELROUTE, 0, remove), (RTM_NEWROUTE, CREATE | REPLACE, add):
            for destination, gateway in sorted(routes, key=lambda route: (route[1] is not None, route[0])):
                text, _slash, length = destination.partition("/")
                family, prefix = _packed(text)
                scope = RT_SCOPE_LINK if gateway is None and family == socket.AF_INET else RT_SCOPE_UNIVERSE
                message = RTMSG.pack(family, int(length), 0, 0, RT_TABLE_MAIN, PROTOCOL, scope, RTN_UNICAST, 0)
                message += attribute(RTA_DST, prefix) if int(length) else b""
                message += attribute(RTA_GATEWAY, _packed(gateway)[1]) if gateway else b""
                message += attribute(RTA_OIF, index)
                try:
                    netlink.request((kind, flags, message))
                except OSError as error:
                    if kind != RTM_DELROUTE or error.errno != errno.ESRCH:
                        raise


def _packed(text: str) -> tuple[int, bytes]:
    """Return the family and the bytes of an address."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    return family, socket.inet_pton(family, text)


def disable_transmit_checksum(namespace: str, name: str) -> None:
    """Make a link compute checksums itself: Open vSwitch's userspace datapath does not complete them."""
    with in_netns(namespace):
        ethtool.disable_transmit_checksum(name)
