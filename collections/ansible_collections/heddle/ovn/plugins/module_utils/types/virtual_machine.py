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

    `role`: `run` it; `source`: keep a running one while it migrates away, but never start it
    again; `target`: keep an instance ready for an incoming migration.
    """

    name: str
    memory: int
    nics: tuple[Nic, ...]
    role: str = "run"
