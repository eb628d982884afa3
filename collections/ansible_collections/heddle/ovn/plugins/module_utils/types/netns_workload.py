# SPDX-License-Identifier: Apache-2.0
"""Data classes of a workload's network namespace and its interfaces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """One interface of a workload and the host's end of it. `routes` holds (destination, gateway) pairs."""

    name: str
    host_name: str
    mac: str
    mtu: int
    addresses: tuple[str, ...]
    routes: tuple[tuple[str, str], ...]
    network: str


@dataclass(frozen=True)
class Endpoint:
    """A workload's network namespace and its links."""

    namespace: str
    links: tuple[Link, ...]
