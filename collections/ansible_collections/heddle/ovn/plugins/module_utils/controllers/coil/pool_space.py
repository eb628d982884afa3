# SPDX-License-Identifier: Apache-2.0
"""The geometry of an AddressPool, and the two rules by which blocks and addresses are chosen. Pure arithmetic.

Coil v2, "Address blocks": the index of a block counts over the concatenation of the pool's subnets, and the block has
the same place in the IPv4 and the IPv6 subnet of an entry. An address is known by a number of the pool: the index of
its block, followed by `bits` bits for its place in the block.
"""

from __future__ import annotations

import bisect
import ipaddress
import itertools
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property

from ...common.addressing import network_of


@dataclass(frozen=True)
class PoolSpace:
    """The blocks of a pool: `bits` is its blockSizeBits, `subnets` its entries (`ipv4`, `ipv6` or both)."""

    bits: int
    subnets: tuple[dict, ...]

    @classmethod
    def of(cls, spec: dict) -> PoolSpace:
        """Return the blocks of an AddressPool by its spec."""
        return cls(spec["blockSizeBits"], tuple(spec["subnets"]))

    @property
    def block_size(self) -> int:
        """Return the number of addresses of a block; workloads use all of them, the first and the last too."""
        return 1 << self.bits

    @cached_property
    def _ends(self) -> list[int]:
        """The index after the last block of each entry."""
        return list(itertools.accumulate(self._blocks_of(entry) for entry in self.subnets))

    def _blocks_of(self, entry: dict) -> int:
        network = network_of(next(iter(entry.values())))
        return 1 << (network.max_prefixlen - network.prefixlen - self.bits)

    @property
    def block_count(self) -> int:
        """Return the number of blocks of the pool."""
        return self._ends[-1]

    def block(self, index: int) -> dict[str, str]:
        """Return the CIDRs of a block by family (`ipv4`, `ipv6`); IndexError beyond the pool."""
        return {
            name: str(type(network)((int(network.network_address) + offset, network.max_prefixlen - self.bits)))
            for name, network, offset in self._places(index << self.bits)
        }

    def addresses(self, number: int) -> list[str]:
        """Return the addresses with a number, IPv4 first; IndexError beyond the pool."""
        make = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}
        return [
            str(make[network.version](int(network.network_address) + offset))
            for _name, network, offset in self._places(number)
        ]

    def number_of(self, address: str) -> int | None:
        """Return the number of an address, None for one that is in no subnet of the pool."""
        wanted = ipaddress.ip_address(address)
        for position, entry in enumerate(self.subnets):
            for network in map(network_of, entry.values()):
                if network.version == wanted.version and wanted in network:
                    first = self._ends[position - 1] if position else 0
                    return (first << self.bits) + int(wanted) - int(network.network_address)
        return None

    def _places(self, number: int) -> Iterator[tuple[str, ipaddress.IPv4Network | ipaddress.IPv6Network, int]]:
        index = number >> self.bits
        if not 0 <= index < self.block_count:
            raise IndexError(f"block {index} of {self.block_count}")
        position = bisect.bisect_right(self._ends, index)
        first = self._ends[position - 1] if position else 0
        for name, text in sorted(self.subnets[position].items()):
            yield name, network_of(text), number - (first << self.bits)


def first_fit(count: int, taken: Set[int]) -> Iterator[int]:
    """Yield the indexes below `count` that are not taken, lowest first."""
    return (index for index in range(count) if index not in taken)


def next_fit(size: int, taken: Set[int], last: int) -> int | None:
    """Return the first free place of a block after the one that was given last, going on from its start; None if full.

    Coil v2, "Address blocks": an address that was freed is not given again immediately.
    """
    if len(taken) >= size:
        return None
    return next(place for place in itertools.chain(range(last + 1, size), range(last + 1)) if place not in taken)
