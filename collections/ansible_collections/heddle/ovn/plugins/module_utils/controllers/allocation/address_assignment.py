# SPDX-License-Identifier: Apache-2.0
"""Which host announces which address of a load balancer: a pure function of the hosts, the wish, and what was before.

An address stays with its host as long as that may hold it, and goes to the host with the fewest addresses otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from ...common.addressing import is_within


@dataclass(frozen=True)
class Candidate:
    """A host that may announce addresses: its `name`, and the `subnets` that it has on the provider network."""

    name: str
    subnets: tuple[str, ...]


def assigned_hosts(
    wanted: Mapping[str, Collection[str] | None],
    hosts: Collection[Candidate],
    before: Mapping[str, str],
    together: Collection[Collection[str]] = (),
) -> dict[str, str]:
    """Return the host of each address that can have one.

    `wanted` has by address the hosts that may announce it as far as its Service is concerned, None for any; `before`
    are the holders as they were. Addresses that are `together` have one host, or none.
    """
    result: dict[str, str] = {}
    load: Counter[str] = Counter()
    groups, by_name = list(_groups(wanted, together)), {one.name: one for one in hosts}
    # Most hosts have the same subnets.
    reaches = cache(is_within)

    def may(host: Candidate, group: tuple[str, ...]) -> bool:
        return all(
            (wanted[address] is None or host.name in wanted[address]) and reaches(address, host.subnets)
            for address in group
        )

    # Where addresses stay, only the former host of each is looked at, and not all hosts.
    for group in groups:
        former = (by_name.get(before.get(address, "")) for address in group)
        kept = next((host.name for host in former if host and may(host, group)), None)
        if kept:
            result |= dict.fromkeys(group, kept)
            load[kept] += len(group)
    for group in groups:
        names = () if group[0] in result else [host.name for host in hosts if may(host, group)]
        if names:
            chosen = min(names, key=lambda name: (load[name], name))
            result |= dict.fromkeys(group, chosen)
            load[chosen] += len(group)
    return {address: result[address] for address in wanted if address in result}


def _groups(wanted: Mapping[str, object], together: Collection[Collection[str]]) -> Iterator[tuple[str, ...]]:
    """Yield all addresses, each in one group, in their order."""
    groups = {address: tuple(group) for group in together for address in group}
    for address in wanted:
        group = groups.get(address, (address,))
        if group[0] == address:
            yield group
