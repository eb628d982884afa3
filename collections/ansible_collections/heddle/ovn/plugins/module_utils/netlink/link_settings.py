# SPDX-License-Identifier: Apache-2.0
"""What the kernel sends on a link by itself: settings in /proc/sys of the current namespace."""

from __future__ import annotations

import contextlib


def silence(name: str, *, solicits: bool) -> None:
    """Make a link look for no duplicates of its addresses, nor for routers if not `solicits`.

    Nothing on a kernel without IPv6.
    """
    settings = {"accept_dad": "0"} if solicits else {"accept_dad": "0", "router_solicitations": "0"}
    with contextlib.suppress(FileNotFoundError):
        for setting, value in settings.items():
            _write(f"ipv6/conf/{name}/{setting}", value)


def set_answers_arp(name: str, *, answers: bool) -> None:
    """Make a link answer ARP for all addresses of the host, or for none (sysctl arp_ignore 0 and 8).

    None is for the switch's end of a workload's link. Beside a userspace datapath the kernel sees these frames as well,
    and has the address of the management port that the workload asks for.
    """
    _write(f"ipv4/conf/{name}/arp_ignore", "0" if answers else "8")


def disable_ipv6(name: str) -> None:
    """Remove a link's IPv6 addresses, and make the host send and receive no IPv6 there.

    Nothing on a kernel without IPv6.
    """
    with contextlib.suppress(FileNotFoundError):
        _write(f"ipv6/conf/{name}/disable_ipv6", "1")


def _write(name: str, value: str) -> None:
    with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
        file.write(value)
