# SPDX-License-Identifier: Apache-2.0
"""What a desired virtual machine looks like: the words that `render` writes and `apply` reads."""

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

    `role` says what the host may do with it: `run` it; keep what is there while it moves `away`, but never start it
    again; hold a place for it as the `target` of its move.
    """

    name: str
    memory: int
    nics: tuple[Nic, ...]
    role: str = "run"
