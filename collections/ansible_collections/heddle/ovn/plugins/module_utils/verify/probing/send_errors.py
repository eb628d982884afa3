# SPDX-License-Identifier: Apache-2.0
"""Datagrams that a kernel could not send, by the counters of each network namespace.

sendto(2) does not report it: without IP_RECVERR the kernel only counts a datagram for which it has no neighbour entry,
because the table is full, or no place in a queue (`SndbufErrors` in /proc/net/snmp, `Udp6SndbufErrors` in
/proc/net/snmp6).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from ...netlink import kernel

_IPV4, _IPV6 = "/proc/thread-self/net/snmp", "/proc/thread-self/net/snmp6"


class SendErrors:
    """The counters of some network namespaces from now on; None is the host's own."""

    def __init__(self, namespaces: Iterable[str | None]) -> None:
        self._before = _counters(namespaces)

    def since(self) -> int:
        """Return how many datagrams were not sent since then."""
        return sum(count - self._before[namespace] for namespace, count in _counters(self._before).items())


def _counters(namespaces: Iterable[str | None]) -> dict[str | None, int]:
    """Return the counters by namespace; one that is removed meanwhile has none."""
    found = {}
    for namespace in namespaces:
        with contextlib.suppress(OSError), kernel.in_netns(namespace):
            found[namespace] = _of_ipv4(Path(_IPV4).read_text(encoding="ascii")) + _of_ipv6(Path(_IPV6))
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
