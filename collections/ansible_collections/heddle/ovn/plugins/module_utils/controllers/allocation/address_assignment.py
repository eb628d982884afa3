# SPDX-License-Identifier: Apache-2.0
"""Which host announces which address of a load balancer: a pure function of the hosts, the wish, and what was before.

An address stays with its host as long as that may hold it, and goes to the host with the fewest addresses otherwise.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass


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
    able = {
        group: [one.name for one in hosts if all(_may(one, address, wanted[address]) for address in group)]
        for group in _groups(wanted, together)
    }
    for group, names in able.items():
        kept = next((before[address] for address in group if before.get(address) in names), None)
        if kept:
            result |= dict.fromkeys(group, kept)
            load[kept] += len(group)
    for group, names in able.items():
        if names and group[0] not in result:
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


def _may(host: Candidate, address: str, allowed: Collection[str] | None) -> bool:
    if allowed is not None and host.name not in allowed:
        return False
    found = ipaddress.ip_address(address)
    return any(found in ipaddress.ip_network(subnet) for subnet in host.subnets)
