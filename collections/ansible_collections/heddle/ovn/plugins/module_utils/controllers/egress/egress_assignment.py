# SPDX-License-Identifier: Apache-2.0
"""Which host holds which egress address: a pure function of what is wanted, of the hosts, and of what was before.

The rules are ovn-kubernetes's (`assignEgressIPs`): a host needs the label and a network with the address in it; two
addresses of one object are on two hosts; no address of a host, of a gateway or of a subnet as such is given away. An
address stays where it is as long as its host may hold it, and goes to the host with the fewest addresses otherwise. The
network is the provider network, or that of another NIC; where an address is in the network of such a NIC on some hosts,
a new host of it is one of these.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ASSIGNABLE_LABEL = "k8s.ovn.org/egress-assignable"


@dataclass(frozen=True)
class Host:
    """A host that may hold addresses: its `name`, and the `subnets` that it has on the provider network.

    `others` are pairs of a further NIC and a subnet that it has there.
    """

    name: str
    subnets: tuple[str, ...]
    others: tuple[tuple[str, str], ...] = ()

    def has_room_for(self, address: str) -> bool:
        """Return whether the address is in one of the host's subnets."""
        return self.nic(address) is not None

    def nic(self, address: str) -> str | None:
        """Return the further NIC in whose subnet an address is, "" on the provider network, None where it is in none.

        The provider network comes first, then the longest prefix decides.
        """
        found = ipaddress.ip_address(address)
        if any(found in ipaddress.ip_network(subnet) for subnet in self.subnets):
            return ""
        around = [(ipaddress.ip_network(subnet).prefixlen, name) for name, subnet in self.others
                  if found in ipaddress.ip_network(subnet)]  # fmt: skip
        return max(around)[1] if around else None


@dataclass
class Assignment:
    """`holders` has the host of each address, by object and address; `failures` say by object why others have none.

    A failure is the reason and the message of ovn-kubernetes's event.
    """

    holders: dict[str, dict[str, str]] = field(default_factory=dict)
    failures: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


def assigned(
    wanted: Mapping[str, Iterable[str]],
    hosts: Iterable[Host],
    taken: Mapping[str, str],
    before: Mapping[str, Mapping[str, str]],
) -> Assignment:
    """Return the host of each address that can have one.

    `wanted` has the addresses of each object; `hosts` are those with the label that are there, or said to be; `taken`
    are addresses that no object may have, each with what it is; `before` are the holders as they were.
    """
    able = {host.name: host for host in hosts}
    result = Assignment({name: {} for name in wanted}, {name: [] for name in wanted})
    owners = _owners(wanted, before)
    load: Counter[str] = Counter(dict.fromkeys(able, 0))
    pending: list[tuple[str, str]] = []
    for name, addresses in wanted.items():
        for address in addresses:
            refusal = _refusal(name, address, owners, taken)
            if refusal:
                result.failures[name].append(refusal)
                continue
            holder = before.get(name, {}).get(address)
            there = holder in able and able[holder].has_room_for(address)
            if there and holder not in result.holders[name].values():
                result.holders[name][address] = holder
                load[holder] += 1
            else:
                pending.append((name, address))
    for name, address in pending:
        room = [host for host in able.values() if host.has_room_for(address)]
        room = [host for host in room if host.nic(address)] or room
        free = [host.name for host in room if host.name not in result.holders[name].values()]
        if free:
            chosen = min(free, key=lambda host: (load[host], host))
            result.holders[name][address] = chosen
            load[chosen] += 1
        else:
            result.failures[name].append(_without_host(address, bool(able), bool(room)))
    # In the order in which they are wanted, wherever each comes from.
    for name, addresses in wanted.items():
        held = result.holders[name]
        result.holders[name] = {address: held[address] for address in addresses if address in held}
    return result


def _owners(wanted: Mapping[str, Iterable[str]], before: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the object that has each address: the one that had it, else the first."""
    owners: dict[str, str] = {}
    for name, addresses in wanted.items():
        for address in addresses:
            owners.setdefault(address, name)
    for name, held in before.items():
        owners |= {address: name for address in held if address in wanted.get(name, ())}
    return owners


def _refusal(name: str, address: str, owners: dict[str, str], taken: Mapping[str, str]) -> tuple[str, str] | None:
    if address in taken:
        return "EgressIPConflict", f"{address} is {taken[address]}"
    if owners[address] != name:
        return "UnsupportedRequest", f"{address} is already an address of EgressIP {owners[address]}"
    return None


def _without_host(address: str, some: bool, room: bool) -> tuple[str, str]:
    if not some:
        return "NoMatchingNodeFound", f"no host with external connectivity has the label {ASSIGNABLE_LABEL}"
    if not room:
        message = f"{address} is in the subnets of no host with the label {ASSIGNABLE_LABEL}"
        return "NoMatchingNodeFound", message
    message = f"{address} has no host: every other one already has an address of this object; label more hosts"
    return "UnassignedRequest", message
