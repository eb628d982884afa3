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
    kept: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the host of each address that can have one.

    `wanted` has by address the hosts that may announce it as far as its Service is concerned, None for any; `before`
    are the holders as they were. Addresses that are `together` have one host, or none. `kept` are addresses that stay
    at these hosts, whatever hosts may announce them; what is together with one of them stays where it is, too.
    """
    kept = kept or {}
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
    left: list[tuple[str, ...]] = []
    for group in groups:
        if not kept.keys().isdisjoint(group):
            held = {address: kept.get(address) or before.get(address) for address in group}
            result |= {address: host for address, host in held.items() if host}
            load.update(host for host in held.values() if host)
            continue
        former = (by_name.get(before.get(address, "")) for address in group)
        holder = next((host.name for host in former if host and may(host, group)), None)
        if holder:
            result |= dict.fromkeys(group, holder)
            load[holder] += len(group)
        else:
            left.append(group)
    for group in left:
        names = [host.name for host in hosts if may(host, group)]
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
