# SPDX-License-Identifier: Apache-2.0
"""Receives probes where tunnelled packets arrive.

Before Open vSwitch has a tunnel port, a UDP socket gets what the host's firewall lets in. Once it has one, the kernel
decapsulates, and what comes out of the port's device has passed the firewall, too. A userspace datapath reads from the
NIC itself.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

from ..common.sockets.packet_capture import (
    BUFFER,
    EQUAL,
    LOAD_HALF,
    LONGEST,
    RETURN,
    Instruction,
    captured,
    frames_of,
)
from ..types.encapsulation import GENEVE, VXLAN, Encapsulation
from ..underlay.packet import ETHERTYPE, Probe, read_datagram, read_frame

# Devices of Open vSwitch's kernel datapath (`vport_type_to_kind`, lib/dpif-netlink-rtnl.c), and the bridge that the
# userspace datapath has the NIC on.
_DEVICES = {GENEVE.kind: f"genev_sys_{GENEVE.udp_port}", VXLAN.kind: f"vxlan_sys_{VXLAN.udp_port}"}
_USERSPACE_BRIDGE = "br-underlay"
_SYS = "/sys/class/net"
# packet(7).
_OUTGOING = 4
_UDP = 17


class Receiver:
    """A socket with what it receives. Usable with `select`."""

    def __init__(self, end: socket.socket, overlay: Encapsulation, read) -> None:
        self._socket, self._overlay, self._read = end, overlay, read
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor for `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Receive no more."""
        self._socket.close()

    def probes(self) -> Iterator[Probe]:
        """Yield the probes that have arrived."""
        while True:
            try:
                data, sender = self._socket.recvfrom(LONGEST)
            except OSError:
                return
            if self._socket.family == socket.AF_PACKET and sender[2] == _OUTGOING:
                continue
            probe = self._read(data, self._overlay)
            if probe:
                yield probe


def receivers(
    addresses: list[str], overlay: Encapsulation, interface: str, *, may_bind: bool = True
) -> tuple[list[Receiver], str]:
    """Return what receives an encapsulation at these addresses of the host, and the problem why nothing does, or "".

    `interface` is the NIC of the underlay. Without `may_bind` the UDP port is left to Open vSwitch. PermissionError for
    a user who is not root.
    """
    device = _DEVICES[overlay.kind]
    if os.path.isdir(os.path.join(_SYS, device)):
        return [Receiver(captured(device, frames_of(ETHERTYPE)), overlay, read_frame)], ""
    if os.path.isdir(os.path.join(_SYS, _USERSPACE_BRIDGE)):
        return [Receiver(captured(interface, _datagrams(overlay.udp_port)), overlay, _inside)], ""
    if not may_bind:
        return [], f"Open vSwitch has no tunnel port for UDP port {overlay.udp_port}"
    found: list[Receiver] = []
    for address in addresses:
        end = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        try:
            end.bind((address, overlay.udp_port))
        except OSError as error:
            end.close()
            for one in found:
                one.close()
            return [], _problem(error, address, overlay)
        found.append(Receiver(end, overlay, read_datagram))
    return found, ""


def _problem(error: OSError, address: str, overlay: Encapsulation) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"another program has UDP port {overlay.udp_port}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"the host does not have the address {address}"
    return f"UDP port {overlay.udp_port}: {error.strerror}"


# Instructions of classic BPF (linux/filter.h), beside those of `packet_capture.py`.
_LOAD_BYTE, _LOAD_LENGTH, _LOAD_INDEXED, _ANY_BIT = 0x30, 0xB1, 0x48, 0x45


def _datagrams(port: int) -> list[Instruction]:
    """UDP datagrams to a port, unfragmented, without extension headers."""
    return [
        (LOAD_HALF, 0, 0, 12),
        (EQUAL, 0, 7, 0x0800),
        (_LOAD_BYTE, 0, 0, 23),
        (EQUAL, 0, 11, _UDP),
        (LOAD_HALF, 0, 0, 20),
        (_ANY_BIT, 9, 0, 0x3FFF),
        (_LOAD_LENGTH, 0, 0, 14),
        (_LOAD_INDEXED, 0, 0, 16),
        (EQUAL, 5, 6, port),
        (EQUAL, 0, 5, 0x86DD),
        (_LOAD_BYTE, 0, 0, 20),
        (EQUAL, 0, 3, _UDP),
        (LOAD_HALF, 0, 0, 56),
        (EQUAL, 0, 1, port),
        (RETURN, 0, 0, LONGEST),
        (RETURN, 0, 0, 0),
    ]


def _inside(frame: bytes, overlay: Encapsulation) -> Probe | None:
    """Return the probe in an Ethernet frame of the underlay."""
    start = 14 + (40 if frame[12:14] == b"\x86\xdd" else 4 * (frame[14] & 0xF)) + 8
    length = int.from_bytes(frame[start - 4 : start - 2], "big") - 8
    # Short frames are padded.
    return read_datagram(frame[start : start + length], overlay)
