# SPDX-License-Identifier: Apache-2.0
"""Data classes of a workload's network namespace and its interfaces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """One interface of a workload and the host's end of it. `routes` holds (destination, gateway) pairs, with None
    for what is on the link.

    Without `solicits_routers` it does not ask for IPv6 routers: on its network none would answer, the kernel asks for
    ever, and each question is copied to all ports of the network's switch. With `is_routed` the host's end is the
    workload's gateway; without, it is a port of a switch.
    """

    name: str
    host_name: str
    mac: str
    mtu: int
    addresses: tuple[str, ...]
    routes: tuple[tuple[str, str | None], ...]
    network: str
    solicits_routers: bool = True
    is_routed: bool = False


@dataclass(frozen=True)
class Endpoint:
    """A workload's network namespace and its links; `resolver` is the text of its resolv.conf, "" for none."""

    namespace: str
    links: tuple[Link, ...]
    resolver: str = ""
