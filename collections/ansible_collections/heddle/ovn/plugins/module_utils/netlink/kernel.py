# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the kernel's links, addresses and routes through pyroute2.

It decides nothing; `workload_links.py` and `reconcile.py` do. Network namespaces are entered only to open
a netlink socket in them, which then stays there, so no process is started.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import socket
import struct
import time
import traceback

from ..types.host_network import PROTOCOL
from .messages import FAMILIES, NO_DAD, PERMANENT, address_flags, address_text, destination, is_up, link_kind

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
_SIOCETHTOOL = 0x8946
_GET_TX_CHECKSUM, _SET_TX_CHECKSUM = 0x16, 0x17
_READINGS, _PAUSE_SECONDS = 20, 0.01


def read_whole(function):
    """Decorator for dumps: repeats one that was inconsistent because of a concurrent change (NLM_F_DUMP_INTR).

    That happens whenever Open vSwitch makes links at the same time.
    """

    @functools.wraps(function)
    def reading(*arguments, **named):
        for number in range(1, _READINGS):
            try:
                return function(*arguments, **named)
            except _Interrupted:
                time.sleep(number * _PAUSE_SECONDS)
        return function(*arguments, **named)

    return reading


def datapath_type() -> str:
    """Return `system` where this kernel has Open vSwitch, else `netdev`."""
    return "system" if has_module("openvswitch") else "netdev"


def has_module(name: str) -> bool:
    """Return whether this kernel has a module, built in or loadable."""
    release = f"/lib/modules/{os.uname().release}"
    if os.path.isdir(f"/sys/module/{name}"):
        return True
    for listing in ("modules.dep", "modules.builtin"):
        with contextlib.suppress(OSError), open(f"{release}/{listing}", encoding="utf-8") as lines:
            if any(f"/{name}.ko" in line.partition(":")[0] for line in lines):
                return True
    return False


@contextlib.contextmanager
def in_netns(namespace: str | None):
    """Run in a network namespace; None keeps the current one. OSError when there is none of that name."""
    if namespace is None:
        yield
        return
    network_namespace.pushns()
    try:
        # Without this flag a missing namespace would be created.
        network_namespace.setns(namespace, flags=0)
        yield
    finally:
        network_namespace.popns()


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
    permanent ones of global scope; routes are those that carry Heddle's protocol.
    """
    with in_netns(namespace), IPRoute() as route:
        links = {}
        for message in route.get_links():
            links[message.get_attr("IFLA_IFNAME")] = {
                "index": message["index"],
                "peer": message.get_attr("IFLA_LINK"),
                "mac": message.get_attr("IFLA_ADDRESS"),
                "mtu": message.get_attr("IFLA_MTU"),
                "up": is_up(message),
                "alias": message.get_attr("IFLA_IFALIAS") or "",
                "kind": link_kind(message),
                "addresses": set(),
                "routes": set(),
                "offload": False,
            }
        by_index = {link["index"]: link for link in links.values()}
        for message in route.get_addr():
            if message["scope"] == 0 and address_flags(message) & PERMANENT and message["index"] in by_index:
                by_index[message["index"]]["addresses"].add(address_text(message))
        if namespace is not None:
            _read_routes(route, by_index)
            for name, link in links.items():
                if link["kind"] == "veth":
                    link["offload"] = transmit_checksum(name)
        return links


def _read_routes(route, by_index: dict[int, dict]) -> None:
    for family, number in FAMILIES.items():
        for message in route.get_routes(family=number):
            link = by_index.get(message.get_attr("RTA_OIF"))
            if message["proto"] == PROTOCOL and link is not None:
                link["routes"].add((destination(message, family), message.get_attr("RTA_GATEWAY")))


def create_namespace(namespace: str, mark: str) -> None:
    """Create a namespace and mark it on its loopback link, which is also brought up."""
    network_namespace.create(namespace)
    with in_netns(namespace), IPRoute() as route:
        route.link("set", index=1, ifalias=mark, state="up")


def remove_namespace(namespace: str) -> None:
    """Remove a namespace and the links in it."""
    network_namespace.remove(namespace)


def create_link(namespace: str, link, mark: str) -> None:
    """Create a veth pair: one end on the host, marked and up, the other in the namespace."""
    with IPRoute() as route:
        peer = {"ifname": link.name, "net_ns_fd": namespace, "address": link.mac, "mtu": link.mtu}
        route.link("add", ifname=link.host_name, kind="veth", mtu=link.mtu, peer=peer)
        index = route.link_lookup(ifname=link.host_name)[0]
        route.link("set", index=index, ifalias=mark, state="up")


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


def change_link(namespace: str | None, name: str, **settings) -> None:
    """Set attributes of a link: `address`, `mtu`, `state`, `ifalias`."""
    with in_netns(namespace), IPRoute() as route:
        route.link("set", index=route.link_lookup(ifname=name)[0], **settings)


def change_addresses(namespace: str | None, name: str, add: set[str], remove: set[str]) -> None:
    """Add and remove addresses; IPv6 ones are set without duplicate address detection."""
    with in_netns(namespace), IPRoute() as route:
        index = route.link_lookup(ifname=name)[0]
        for verb, interfaces in (("del", remove), ("add", add)):
            for interface in sorted(interfaces):
                address, _slash, length = interface.partition("/")
                extra = {"flags": NO_DAD} if ":" in address and verb == "add" else {}
                route.addr(verb, index=index, address=address, prefixlen=int(length), **extra)


def change_routes(namespace: str, name: str, add: set, remove: set) -> None:
    """Set and remove (destination, gateway) routes through a link; existing and missing ones are no error.

    A default route that is set on one link replaces that of another one.
    """
    with in_netns(namespace), IPRoute() as route:
        index = route.link_lookup(ifname=name)[0]
        for verb, routes in (("del", remove), ("replace", add)):
            for destination, gateway in sorted(routes):
                try:
                    route.route(verb, dst=destination, gateway=gateway, oif=index, proto=PROTOCOL)
                except NetlinkFailure as error:
                    if verb != "del" or error.code != errno.ESRCH:
                        raise


def transmit_checksum(name: str) -> bool:
    """Return whether a link leaves transmit checksums to its other end (ethtool(8), `tx`)."""
    return _ethtool(name, _GET_TX_CHECKSUM, 0) != 0


def disable_transmit_checksum(namespace: str, name: str) -> None:
    """Make a link compute checksums itself: Open vSwitch's userspace datapath does not complete them."""
    with in_netns(namespace):
        _ethtool(name, _SET_TX_CHECKSUM, 0)


def _ethtool(name: str, command: int, value: int) -> int:
    request = array.array("B", struct.pack("II", command, value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        pointer, _length = request.buffer_info()
        fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP", name.encode(), pointer))
    return struct.unpack("II", request.tobytes())[1]
