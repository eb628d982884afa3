# SPDX-License-Identifier: Apache-2.0
"""Sockets with the packets of a device that a filter selects (packet(7)), and filters of classic BPF."""

from __future__ import annotations

import ctypes
import socket
import struct

# Larger than any packet, and a buffer that holds what arrives while the process is not scheduled, both in bytes.
LONGEST, BUFFER = 65536, 4 << 20
# packet(7), socket(7).
_EVERY_PROTOCOL, _ATTACH_FILTER = 0x0003, 26
# Instructions of classic BPF (linux/filter.h).
LOAD_HALF, EQUAL, RETURN = 0x28, 0x15, 0x06
# Code, jump if true, jump if false, value.
Instruction = tuple[int, int, int, int]


def captured(device: str, program: list[Instruction]) -> socket.socket:
    """Return a socket with the packets of a device that a filter selects; OSError when there is no such device."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
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


def frames_of(ethertype: int) -> list[Instruction]:
    """Return the filter that selects Ethernet frames of one EtherType, whether or not they had a VLAN tag."""
    return [(LOAD_HALF, 0, 0, 12), (EQUAL, 0, 1, ethertype), (RETURN, 0, 0, LONGEST), (RETURN, 0, 0, 0)]
