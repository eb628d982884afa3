# SPDX-License-Identifier: Apache-2.0
"""Sends frames from one port of a bridge, bypassing its flows (OpenFlow 1.3, 7.3.7)."""

from __future__ import annotations

from ..common import subprocesses
from .parser import VERSION


def send_out(bridge: str, port: str, frame: bytes, run: subprocesses.Run = subprocesses.run) -> None:
    """Send an Ethernet frame (from the destination MAC on, without checksum) out of a port, by name.

    ProgramError when Open vSwitch rejects it, or has no such bridge or port.
    """
    what = f'in_port=CONTROLLER,packet={frame.hex()},actions=output:"{port}"'
    run(["ovs-ofctl", "-O", VERSION, "--names", "packet-out", bridge, what], "")
