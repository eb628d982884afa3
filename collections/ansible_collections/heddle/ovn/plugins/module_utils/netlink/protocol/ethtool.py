# SPDX-License-Identifier: Apache-2.0
"""Transmit checksums of links of the current network namespace, by the ioctl of ethtool(8) (linux/ethtool.h)."""

from __future__ import annotations

import array
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_GET_TX_CHECKSUM, _SET_TX_CHECKSUM = 0x16, 0x17


def transmit_checksum(name: str) -> bool:
    """Return whether a link leaves transmit checksums to its other end (ethtool(8), `tx`); OSError without the link."""
    return _ethtool(name, _GET_TX_CHECKSUM) != 0


def disable_transmit_checksum(name: str) -> None:
    """Make a link compute checksums itself; OSError without the link."""
    _ethtool(name, _SET_TX_CHECKSUM)


def _ethtool(name: str, command: int) -> int:
    request = array.array("B", struct.pack("II", command, 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        pointer, _length = request.buffer_info()
        fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP", name.encode(), pointer))
    return struct.unpack("II", request.tobytes())[1]
