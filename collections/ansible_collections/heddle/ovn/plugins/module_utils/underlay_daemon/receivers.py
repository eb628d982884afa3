# SPDX-License-Identifier: Apache-2.0
"""Receives probes where tunnelled packets arrive.

Before Open vSwitch has a tunnel port, a UDP socket gets what the host's firewall lets in. Once it has one, the kernel
decapsulates, and what comes out of the port's device has passed the firewall, too. A userspace datapath reads from the
NIC itself.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator

from ..types.encapsulation import GENEVE, VXLAN, Encapsulation
from ..underlay.packet import ETHERTYPE, Probe, read_datagram, read_frame

# Devices of Open vSwitch's kernel datapath (`vport_type_to_kind`, lib/dpif-netlink-rtnl.c), and the bridge that the
# userspace datapath has the NIC on.
_DEVICES = {GENEVE.kind: f"genev_sys_{GENEVE.udp_port}", VXLAN.kind: f"vxlan_sys_{VXLAN.udp_port}"}
_USERSPACE_BRIDGE = "br-underlay"
_SYS = "/sys/class/net"
# Larger than any packet, and a buffer that holds what arrives while the process is not scheduled.
_LONGEST, _BUFFER = 65536, 4 << 20
# packet(7), socket(7).
_EVERY_PROTOCOL, _OUTGOING, _ATTACH_FILTER = 0x0003, 4, 26
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
                data, sender = self._socket.recvfrom(_LONGEST)
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
        return [Receiver(_captured(device, _frames()), overlay, read_frame)], ""
    if os.path.isdir(os.path.join(_SYS, _USERSPACE_BRIDGE)):
        return [Receiver(_captured(interface, _datagrams(overlay.udp_port)), overlay, _inside)], ""
    if not may_bind:
        return [], f"Open vSwitch has no tunnel port for UDP port {overlay.udp_port}"
    found: list[Receiver] = []
    for address in addresses:
        end = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
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


def _captured(device: str, program: list[tuple[int, int, int, int]]) -> socket.socket:
    """Return a socket with the packets of a device that a filter of BPF selects."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    code = b"".join(struct.pack("HBBI", *one) for one in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    # Before it is bound: from then on packets arrive.
    end.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HL", len(program), ctypes.addressof(buffer)))
    try:
        end.bind((device, _EVERY_PROTOCOL))
    except OSError:
        end.close()
        raise
    return end


# Instructions of classic BPF (linux/filter.h): load half word, load byte, and so on.
_LOAD_HALF, _LOAD_BYTE, _LOAD_LENGTH, _LOAD_INDEXED = 0x28, 0x30, 0xB1, 0x48
_EQUAL, _ANY_BIT, _RETURN = 0x15, 0x45, 0x06


def _frames() -> list[tuple[int, int, int, int]]:
    """Frames that hold a probe."""
    return [(_LOAD_HALF, 0, 0, 12), (_EQUAL, 0, 1, ETHERTYPE), (_RETURN, 0, 0, _LONGEST), (_RETURN, 0, 0, 0)]


def _datagrams(port: int) -> list[tuple[int, int, int, int]]:
    """UDP datagrams to a port, unfragmented, without extension headers."""
    return [
        (_LOAD_HALF, 0, 0, 12),
        (_EQUAL, 0, 7, 0x0800),
        (_LOAD_BYTE, 0, 0, 23),
        (_EQUAL, 0, 11, _UDP),
        (_LOAD_HALF, 0, 0, 20),
        (_ANY_BIT, 9, 0, 0x3FFF),
        (_LOAD_LENGTH, 0, 0, 14),
        (_LOAD_INDEXED, 0, 0, 16),
        (_EQUAL, 5, 6, port),
        (_EQUAL, 0, 5, 0x86DD),
        (_LOAD_BYTE, 0, 0, 20),
        (_EQUAL, 0, 3, _UDP),
        (_LOAD_HALF, 0, 0, 56),
        (_EQUAL, 0, 1, port),
        (_RETURN, 0, 0, _LONGEST),
        (_RETURN, 0, 0, 0),
    ]


def _inside(frame: bytes, overlay: Encapsulation) -> Probe | None:
    """Return the probe in an Ethernet frame of the underlay."""
    start = 14 + (40 if frame[12:14] == b"\x86\xdd" else 4 * (frame[14] & 0xF)) + 8
    length = int.from_bytes(frame[start - 4 : start - 2], "big") - 8
    # Short frames are padded.
    return read_datagram(frame[start : start + length], overlay)
