# SPDX-License-Identifier: Apache-2.0
"""Makes a host a router between its workloads and its NICs, without losing what it learns from IPv6 routers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..common.change import Change
from .protocol.route_tables import read_table
from .protocol.rtnetlink import RT_TABLE_MAIN, RTPROT_RA
from .step import Step

_FORWARDING = ("net/ipv4/conf/all/forwarding", "net/ipv6/conf/all/forwarding")


def forwarding_steps() -> Iterator[Step]:
    """Yield what is missing for forwarding in both families.

    Linux drops what router advertisements gave when it begins to forward, unless accept_ra is 2 (ip-sysctl).
    """
    learning = {route.device for route in read_table(RT_TABLE_MAIN) if route.protocol == RTPROT_RA and route.device}
    wanted = {f"net/ipv6/conf/{name}/accept_ra": "2" for name in sorted(learning)} | dict.fromkeys(_FORWARDING, "1")
    for name, value in wanted.items():
        there = _read(name)
        # A kernel without IPv6 has no such setting.
        if there is not None and there != value:
            change = Change("kernel", "update", "sysctl", name, "", {"value": there}, {"value": value})
            yield Step(change, partial(_write, name, value))


def _read(name: str) -> str | None:
    try:
        with open(f"/proc/sys/{name}", encoding="ascii") as text:
            return text.read().strip()
    except OSError:
        return None


def _write(name: str, value: str) -> None:
    with open(f"/proc/sys/{name}", "w", encoding="ascii") as text:
        text.write(value)
