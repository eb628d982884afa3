# SPDX-License-Identifier: Apache-2.0
"""Which host holds which egress address: a pure function of what is wanted, of the hosts, and of what was before.

The rules are ovn-kubernetes's (`assignEgressIPs`): a host needs the label and a network with the address in it; two
addresses of one object are on two hosts; no address of a host, of a gateway or of a subnet as such is given away. The
network is the provider network, or that of another NIC; where an address is in the network of such a NIC on some hosts,
a new host of it is one of these.

ovn-kubernetes takes the addresses in their order, so that one that may be on several hosts can take the only host of
another. Here as many addresses of an object as possible have a host, which is a maximum bipartite matching. An address
stays where it is as long as its host may hold it, unless another one of its object would be without a host then: as few
as possible move. Others go to the host with the fewest addresses. What has a host never loses it to another address.
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
    kept: Mapping[str, str] | None = None,
) -> Assignment:
    """Return the host of each address that can have one.

    `wanted` has the addresses of each object; `hosts` are those with the label that are there, or said to be; `taken`
    are addresses that no object may have, each with what it is; `before` are the holders as they were. `kept` are
    addresses that stay at these hosts, whatever hosts may hold them; no other address of their objects makes way then.
    """
    kept = kept or {}
    able = {host.name: host for host in hosts}
    result = Assignment({name: {} for name in wanted}, {name: [] for name in wanted})
    owners = _owners(wanted, before)
    load: Counter[str] = Counter(dict.fromkeys(able, 0))
    pending: dict[str, list[str]] = {}
    for name, addresses in wanted.items():
        for address in addresses:
            refusal = _refusal(name, address, owners, taken)
            if refusal:
                result.failures[name].append(refusal)
            elif address in kept:
                result.holders[name][address] = kept[address]
                result.failures[name].append(not_given_up(address, kept[address]))
    for name, addresses in wanted.items():
        load.update(result.holders[name].values())
        for address in addresses:
            if address in result.holders[name] or _refusal(name, address, owners, taken):
                continue
            holder = before.get(name, {}).get(address)
            there = holder in able and able[holder].has_room_for(address)
            if there and holder not in result.holders[name].values():
                result.holders[name][address] = holder
                load[holder] += 1
            else:
                pending.setdefault(name, []).append(address)
    for name, addresses in pending.items():
        held = result.holders[name]
        # Those that make way leave hosts that are to give up nothing while another address has not left its own.
        fixed = {} if kept.keys().isdisjoint(held) else held
        movable = {address: host for address, host in held.items() if address not in fixed}
        free = {host: one for host, one in able.items() if host not in fixed.values()}
        load.subtract(movable.values())
        matching = _Matching(free, load, movable)
        for address in addresses:
            if not matching.add(address):
                has_room = bool(matching.hosts_of(address))
                result.failures[name].append(_without_host(address, bool(able), has_room))
        result.holders[name] = {**fixed, **matching.holders}
        load.update(matching.holders.values())
    # In the order in which they are wanted, wherever each comes from.
    for name, addresses in wanted.items():
        held = result.holders[name]
        result.holders[name] = {address: held[address] for address in addresses if address in held}
    return result


class _Matching:
    """The hosts of the addresses of one object, which are different ones.

    An address that is added takes the cheapest augmenting path: others make way where that is the only way to a host,
    and of these rather one without a host before than one of `kept`, which stay at no cost.
    """

    def __init__(self, able: Mapping[str, Host], load: Mapping[str, int], kept: Mapping[str, str]) -> None:
        self.holders = dict(kept)
        self._able = able
        self._load = load
        self._kept = dict(kept)
        self._costs: dict[str, dict[str, tuple[int, int]]] = {}

    def hosts_of(self, address: str) -> dict[str, tuple[int, int]]:
        """Return what each host that may hold an address costs: addresses that leave theirs, and its other addresses.

        In the order of names.
        """
        if address not in self._costs:
            nics = {name: host.nic(address) for name, host in sorted(self._able.items())}
            kept, apart = self._kept.get(address), any(nics.values())
            room = (name for name, nic in nics.items() if nic or (nic == "" and not apart))
            found = {name: (int(kept is not None), self._load[name]) for name in room}
            self._costs[address] = found if kept is None else {**found, kept: (0, 0)}
        return self._costs[address]

    def add(self, address: str) -> bool:
        """Give an address a host, and others of the object another one where it has to be; return whether it has."""
        holding = {host: held for held, host in self.holders.items()}
        best = self._ways(address, holding)
        free = [host for host in best if host not in holding]
        if not free:
            return False
        host: str | None = min(free, key=lambda one: (best[one][0], one))
        while host is not None:
            taker = best[host][1]
            left = self.holders.get(taker)
            self.holders[taker] = host
            host = left
        return True

    def _ways(self, address: str, holding: Mapping[str, str]) -> dict[str, tuple[tuple[int, int], str]]:
        """Return the cost of the cheapest way to each host (Bellman-Ford), and the address that takes it then.

        `holding` has the address that each host holds now. No cycle has a negative cost, since what is held is the
        cheapest matching of its addresses.
        """
        best = {host: (cost, address) for host, cost in self.hosts_of(address).items()}
        changed = list(best)
        while changed:
            cheaper: list[str] = []
            for host in changed:
                held = holding.get(host)
                if held is None:
                    continue
                costs, ((moved, others), _taker) = self.hosts_of(held), best[host]
                # It releases this host, which has its own cost.
                moved, others = moved - costs[host][0], others - costs[host][1]
                for other, more in costs.items():
                    cost = (moved + more[0], others + more[1])
                    if other != host and (other not in best or cost < best[other][0]):
                        best[other] = (cost, held)
                        cheaper.append(other)
            changed = list(dict.fromkeys(cheaper))
        return best


def _owners(wanted: Mapping[str, Iterable[str]], before: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the object that has each address: the one that had it, else the first."""
    owners: dict[str, str] = {}
    for name, addresses in wanted.items():
        for address in addresses:
            owners.setdefault(address, name)
    for name, held in before.items():
        owners |= {address: name for address in held if address in wanted.get(name, ())}
    return owners


def not_given_up(address: str, host: str) -> tuple[str, str]:
    """Return reason and message of an address that has not left its host yet."""
    return "HandoverPending", f"{address} is still at {host}, which has not given it up: run heddle.ovn.networks again"


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
