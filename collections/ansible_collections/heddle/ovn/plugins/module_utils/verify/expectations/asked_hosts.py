# SPDX-License-Identifier: Apache-2.0
"""Which other hosts of a network each of its hosts asks, so that their number is bounded. Pure.

Pairs of hosts grow with the square of the hosts. Up to a number of others each host asks all of them. With more, all
hosts are in a ring in pseudorandom order, and each asks those at the same distances from it: the next one, the previous
one, and others at distances that the seed chooses. So each host asks as many as ask it, every host computes the same
ring, and another seed chooses other pairs.
"""

from __future__ import annotations

import hashlib

# The same number on each network. At 41 hosts it is all others, so a network that grows beyond that is not tested less.
MOST_OTHERS = 40


class AskedHosts:
    """The hosts of a network, and which others each asks: all of them, or `most` (2 at least), chosen by a key."""

    def __init__(self, hosts: list[str], most: int, *key: str) -> None:
        self._hosts, self._key = hosts, key
        self._ring: list[str] = []
        self.is_sample = len(hosts) - 1 > most
        if self.is_sample:
            count = len(hosts)
            self._ring = self._shuffled("ring", hosts)
            others = self._shuffled("distance", list(map(str, range(2, count - 1))))
            self._distances = [1, count - 1, *map(int, others[: most - 2])]
            self._place = {name: place for place, name in enumerate(self._ring)}

    def of(self, host: str) -> list[str]:
        """Return the hosts that a host asks, itself among them."""
        if not self.is_sample:
            return self._hosts
        place, count = self._place[host], len(self._ring)
        return [host, *(self._ring[(place + distance) % count] for distance in self._distances)]

    def _shuffled(self, what: str, names: list[str]) -> list[str]:
        # CRCs of two seeds of one length differ in the same bits for all names: what is near in the order of one is
        # near in that of the other.
        def number(name: str) -> bytes:
            return hashlib.sha256("\0".join((*self._key, what, name)).encode()).digest()

        return sorted(names, key=number)
