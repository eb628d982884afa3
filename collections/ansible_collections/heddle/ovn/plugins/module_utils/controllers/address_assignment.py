# SPDX-License-Identifier: Apache-2.0
"""Which host announces which address of a load balancer: a pure function of the hosts, the wish, and what was before.

An address stays with its host as long as that may hold it, and goes to the host with the fewest addresses otherwise.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A host that may announce addresses: its `name`, and the `subnets` that it has on the provider network."""

    name: str
    subnets: tuple[str, ...]


def assigned_hosts(
    wanted: Mapping[str, Collection[str] | None], hosts: Collection[Candidate], before: Mapping[str, str]
) -> dict[str, str]:
    """Return the host of each address that can have one.

    `wanted` has by address the hosts that may announce it as far as its Service is concerned, None for any; `before`
    are the holders as they were.
    """
    result: dict[str, str] = {}
    load: Counter[str] = Counter()
    able = {
        address: [one.name for one in hosts if _reaches(one, address) and (allowed is None or one.name in allowed)]
        for address, allowed in wanted.items()
    }
    for address, names in able.items():
        if before.get(address) in names:
            result[address] = before[address]
            load[before[address]] += 1
    for address, names in able.items():
        if names and address not in result:
            result[address] = min(names, key=lambda name: (load[name], name))
            load[result[address]] += 1
    return result


def _reaches(host: Candidate, address: str) -> bool:
    found = ipaddress.ip_address(address)
    return any(found in ipaddress.ip_network(subnet) for subnet in host.subnets)
