# SPDX-License-Identifier: Apache-2.0
"""Datagrams that a kernel could not send, by the counters of each network namespace.

sendto(2) does not report it: without IP_RECVERR the kernel only counts a datagram for which it has no neighbour entry,
because the table is full, or no place in a queue (`SndbufErrors` in /proc/net/snmp, `Udp6SndbufErrors` in
/proc/net/snmp6).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...netlink import kernel

_IPV4, _IPV6 = "/proc/thread-self/net/snmp", "/proc/thread-self/net/snmp6"


def send_errors(namespaces: Iterable[str | None]) -> int:
    """Return how many datagrams of these network namespaces were not sent; None is the host's own."""
    found = 0
    for namespace in namespaces:
        with kernel.in_netns(namespace):
            found += _of_ipv4(Path(_IPV4).read_text(encoding="ascii")) + _of_ipv6(Path(_IPV6))
    return found


def _of_ipv4(text: str) -> int:
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith("Udp: "))
    return int(dict(zip(names, values, strict=True))["SndbufErrors"])


def _of_ipv6(path: Path) -> int:
    # A kernel without IPv6 does not have the file.
    if not path.exists():
        return 0
    counters = dict(line.split() for line in path.read_text(encoding="ascii").splitlines())
    return int(counters["Udp6SndbufErrors"])
