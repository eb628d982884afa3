# SPDX-License-Identifier: Apache-2.0
"""The workload's end of a link, as bytes."""

from __future__ import annotations

import socket
import struct
import subprocess

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel

_ALL_PROTOCOLS = 0x0003
_OUTGOING = 4
# packet(7): the kernel takes a VLAN tag off a received frame and passes it beside the frame.
_SOL_PACKET, _PACKET_AUXDATA, _VLAN_VALID = 263, 8, 1 << 4
_AUXDATA = struct.Struct("IIIHHHH")


class Wire:
    """A veth pair in a host: `port` for the bridge, and an end that only this socket uses."""

    def __init__(self, netns: str, port: str, name: str, interface: dict) -> None:
        self.name = name
        self.mac, self.addresses = interface["mac"], [one.partition("/")[0] for one in interface["addresses"]]
        for arguments in (
            ["link", "add", port, "type", "veth", "peer", "name", name, "address", self.mac],
            # The kernel must send nothing of its own there.
            ["link", "set", name, "addrgenmode", "none"],
            ["link", "set", port, "addrgenmode", "none"],
            ["link", "set", port, "up"],
            ["link", "set", name, "arp", "off", "up"],
        ):
            subprocess.run(["ip", "-n", netns, *arguments], check=True, timeout=120)
        with kernel.in_netns(netns):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
            self._socket.bind((name, _ALL_PROTOCOLS))
            self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            self._socket.setblocking(False)
        self.sent: list[bytes] = []

    def send(self, frame: bytes) -> None:
        """Send a frame, padded as Ethernet does."""
        self.sent.append(frame)
        self._socket.send(frame.ljust(60, b"\0"))

    def receive(self) -> bytes | None:
        """The next frame that arrived, None when there is none."""
        while True:
            try:
                frame, beside, _flags, address = self._socket.recvmsg(65536, 64)
            except BlockingIOError:
                return None
            if address[2] != _OUTGOING:
                return _with_tag(frame, beside)

    def close(self) -> None:
        self._socket.close()


def _with_tag(frame: bytes, beside: list) -> bytes:
    for level, kind, data in beside:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, *_lengths, tag, protocol = _AUXDATA.unpack(data)
            if status & _VLAN_VALID:
                return frame[:12] + struct.pack("!HH", protocol, tag) + frame[12:]
    return frame
