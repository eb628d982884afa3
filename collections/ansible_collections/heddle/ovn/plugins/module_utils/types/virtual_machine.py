# SPDX-License-Identifier: Apache-2.0
"""Data classes of virtual machines and their NICs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Nic:
    """One NIC of a virtual machine, and the host's tap device behind it."""

    host_name: str
    mac: str
    mtu: int
    network: str


@dataclass(frozen=True)
class VirtualMachine:
    """A virtual machine of a host; `memory` is in MiB.

    `role` is what the host may do with it: `run` starts it; on the `source` of its migration it keeps running and is
    never started again; on the `target` QEMU waits for its state.
    """

    name: str
    memory: int
    nics: tuple[Nic, ...]
    role: str = "run"
