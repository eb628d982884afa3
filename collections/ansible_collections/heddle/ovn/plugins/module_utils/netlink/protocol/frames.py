# SPDX-License-Identifier: Apache-2.0
"""Sends frames by a NIC of the host (packet(7))."""

from __future__ import annotations

import socket


def send_frame(device: str, frame: bytes) -> None:
    """Send an Ethernet frame, from the destination MAC on and without checksum; OSError when there is no such NIC."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as packets:
        packets.bind((device, 0))
        packets.send(frame)
