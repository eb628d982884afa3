# SPDX-License-Identifier: Apache-2.0
"""The kernel as a router in a network namespace of its own: packets that come in with a mark, and where they leave.

Both ends of each link are in the namespace, so a packet keeps the mark that its sender gives it (`skb_scrub_packet`).
The kernel needs no neighbours: the links are without ARP.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel
from tests.live.gateway.packets import UDP, Packet, decode
from tests.live.netlink.conftest import ip, make_port

IN, OUT = "in", "out"
_SOURCES = {4: "192.0.2.77", 6: "2001:db8::77"}
_ALL_PROTOCOLS = socket.htons(3)
_SECONDS = 120


@contextlib.contextmanager
def router(names: list[str]) -> Iterator[Wire]:
    """Enter a namespace with the links `in`, `out`, to which the default routes lead, and `names`."""
    name = f"w{os.getpid()}-router"
    kernel.create_namespace(name, "")
    try:
        with kernel.in_netns(name), contextlib.closing(Wire(names)) as wire:
            yield wire
    finally:
        kernel.remove_namespace(name)


class Wire:
    """The links of the current namespace, and what goes through them."""

    def __init__(self, names: list[str]) -> None:
        with HostKernel() as inside:  # Link-local addresses come and change at times of their own.
            inside.write_sysctl("net/ipv6/conf/default/addr_gen_mode", "1")
        for name in (IN, OUT, *names):
            make_port(name)
            ip("link", "set", name, "up", "arp", "off")
        for version in ("-4", "-6"):
            ip(version, "route", "add", "default", "dev", OUT)
        with HostKernel() as inside:
            for setting in ("ipv4/conf/all/forwarding", "ipv6/conf/all/forwarding"):
                inside.write_sysctl(f"net/{setting}", "1")
            for name in ("all", IN):
                inside.write_sysctl(f"net/ipv4/conf/{name}/rp_filter", "0")
        self._mac = kernel.read_links(None)[IN]["mac"]
        self._port = 1024
        self._watch = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _ALL_PROTOCOLS)
        self._watch.settimeout(_SECONDS)

    def close(self) -> None:
        """Close the socket that sees all packets."""
        self._watch.close()

    def frame(self, target: str, port: int = 1024) -> bytes:
        """Return a datagram for the router to forward."""
        source = _SOURCES[6 if ":" in target else 4]
        return Packet("0a:00:00:00:00:77", self._mac, source, target, UDP, port, 9).encode()

    def sender(self, mark: int) -> socket.socket:
        """Return a socket whose frames arrive at the router with a mark."""
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.bind((f"{IN}-far", 0))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        return opened

    def leaves_by(self, target: str, mark: int = 0) -> str:
        """Send a datagram and return the link by which the kernel forwards it."""
        self._port += 1
        with self.sender(mark) as sender:
            sender.send(self.frame(target, self._port))
        while True:
            data, (device, _protocol, kind, *_rest) = self._watch.recvfrom(2048)
            packet = decode(data)
            arrived = kind != socket.PACKET_OUTGOING and device.endswith("-far")
            if arrived and isinstance(packet, Packet) and (packet.target, packet.source_port) == (target, self._port):
                return device.removesuffix("-far")
