# SPDX-License-Identifier: Apache-2.0
"""Selection of test questions, so that their number grows with workloads and not with their square. Pure.

Workloads of one network on one host with one role are equivalent: OVN gives their ports the same rows but for
addresses. So one of them stands for all, and a network is covered when every pair of such groups has exchanged packets.
On a network of many hosts each asks some of the others (`asked_hosts.py`). Where policies apply, workloads that the
same policies select are such groups as well. A seed decides the choice within a group, so all hosts make the same one,
and another seed makes another.

A host computes its own questions: it looks at all workloads once, but at no pairs of other hosts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from ...common.naming import LOCKED_ROLE
from ...common.text.some_of import some_of
from .asked_hosts import MOST_OTHERS, AskedHosts
from .others import Others

CLASSES, ALL = "classes", "all"
# Workloads, networks or Services that a line of what is left out names.
MOST_NAMES = 5
# For each network and host, isolation of one workload is tested against this many other networks. The number of pairs
# of networks grows with their square and would dominate; the report counts what is left out.
MOST_NETWORKS = 128
# With more groups that policies distinguish on a network, each asks one other group only.
MOST_POLICY_GROUPS = 12


@dataclass(frozen=True)
class Selection:
    """`pairs`: `classes` or `all`. `seed`: any text; if empty, the plan's digest is used."""

    pairs: str = CLASSES
    seed: str = ""

    def seeded(self, plan: dict) -> Selection:
        """Return the selection with its effective seed for a plan."""
        return Selection(self.pairs, self.seed or plan["digest"])

    def number(self, *key: str) -> int:
        """Return a pseudorandom number derived from the seed and a key."""
        return zlib.crc32("\0".join((self.seed, *key)).encode())

    def one_of(self, members: list[str], *key: str) -> str:
        """Return one of the members."""
        return members[self.number(*key) % len(members)]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A question from one workload to another at its address in `network`, and the classes that it covers."""

    source: str
    target: str
    network: str
    classes: tuple[tuple[str, ...], ...]


class Groups:
    """Workloads by network, host and role."""

    def __init__(self, plan: dict, selection: Selection) -> None:
        self.selection = selection.seeded(plan)
        # Where all pairs are tested, so are all classes.
        self.is_bounded = selection.pairs != ALL
        self.most_others = MOST_OTHERS if self.is_bounded else len(plan["workloads"])
        self.node = {name: one["node"] for name, one in plan["workloads"].items()}
        self.networks = {
            name: {interface["network"] for interface in one["interfaces"]} for name, one in plan["workloads"].items()
        }
        self.members: dict[str, dict[tuple[str, str], list[str]]] = {}
        for name, one in plan["workloads"].items():
            # One that is attached to a network twice is one workload of it.
            for network, role in dict.fromkeys((end["network"], end["role"]) for end in one["interfaces"]):
                self.members.setdefault(network, {}).setdefault((one["node"], role), []).append(name)
        self.roles: dict[str, dict[str, list[str]]] = {}
        for network, groups in self.members.items():
            for host, role in groups:
                self.roles.setdefault(network, {}).setdefault(host, []).append(role)
        self._others = Others(self.members)
        self._groups = {network: list(groups.values()) for network, groups in self.members.items()}
        policies = plan.get("policies", {})
        self.alike = {
            name: self._selected_alike(name, policies[name]["selections"]) for name in self.members if name in policies
        }

    def _selected_alike(self, network: str, selections: dict[str, list[str]]) -> dict[str, list[str]]:
        """Return the workloads of a network by the names of what selects them."""
        selecting: dict[str, list[str]] = {}
        for selection in sorted(selections):
            for name in selections[selection]:
                selecting.setdefault(name, []).append(selection)
        groups: dict[str, list[str]] = {}
        for (_node, role), members in self.members[network].items():
            for name in members if role != LOCKED_ROLE else ():
                groups.setdefault(" ".join(selecting.get(name, ())), []).append(name)
        return groups

    def chosen(self, node: str | None = None) -> list[Chosen]:
        """Return the questions of one node's workloads, or of all; each pair and network once."""
        merged: dict[tuple[str, str, str], list] = {}
        for source, target, network, key in self._questions(node):
            merged.setdefault((source, target, network), []).extend([key] if key else [])
        return [Chosen(*ends, tuple(classes)) for ends, classes in merged.items()]

    def asked_hosts(self, network: str) -> AskedHosts:
        """Return which hosts of a network ask which."""
        return AskedHosts(list(self.roles[network]), self.most_others, self.selection.seed, network)

    def sampled(self) -> dict[str, int]:
        """Return the networks on which hosts ask some of the others only, with the number of their hosts."""
        return {network: len(hosts) for network, hosts in self.roles.items() if len(hosts) - 1 > self.most_others}

    def _questions(self, node: str | None) -> Iterator[tuple]:
        networks = [network for network, hosts in self.roles.items() if node is None or node in hosts]
        for network in networks:
            within = self._within(network, node), self._every_workload(network), self._by_policies(network, node)
            for source, target, key in chain(*within):
                if node in (None, self.node[source]):
                    yield source, target, network, key
        for network in networks:
            yield from self._isolation(network, node)

    def _within(self, network: str, node: str | None) -> Iterator[tuple]:
        """One question from each group to each one of the hosts that its host asks, also within one of two members."""
        groups, roles, asked = self.members[network], self.roles[network], self.asked_hosts(network)
        for here in roles if node is None else (node,):
            places = [(there, other) for there in asked.of(here) for other in roles[there]]
            for mine in roles[here]:
                sources = groups[here, mine]
                for there, other in places:
                    key = ("network", network, here, mine, there, other)
                    source, targets = self.selection.one_of(sources, *key, "source"), groups[there, other]
                    others = [name for name in targets if name != source] if sources is targets else targets
                    if others:
                        yield source, self.selection.one_of(others, *key, "target"), key

    def _every_workload(self, network: str) -> Iterator[tuple]:
        """Return pairs so that each workload asks another one and is asked by another one, in pseudorandom rings.

        Workloads that are locked on the network form a ring of their own: the others must reach each other.
        """
        groups = self.members[network].items()
        for locked in (False, True):
            ring = sorted(
                {name for (_node, role), members in groups for name in members if (role == LOCKED_ROLE) == locked},
                key=lambda name: self.selection.number("ring", network, name),
            )
            for place, name in enumerate(ring):
                following = ring[(place + 1) % len(ring)]
                if following != name:
                    yield name, following, ("workload", network, following)

    def _by_policies(self, network: str, node: str | None) -> Iterator[tuple]:
        """One question from each group that policies distinguish to each other one, whatever their hosts are."""
        groups = self.alike.get(network, {})
        names = list(groups)
        for place, mine in enumerate(names):
            targets = names
            if self.is_bounded and len(names) > MOST_POLICY_GROUPS:
                step = 1 + self.selection.number("policy", network) % (len(names) - 1)
                targets = [names[(place + step) % len(names)]]
            for other in targets:
                key = ("policy", network, mine, other)
                source = self.selection.one_of(groups[mine], *key, "source")
                if node not in (None, self.node[source]):
                    continue
                if others := [name for name in groups[other] if name != source]:
                    yield source, self.selection.one_of(others, *key, "target"), key

    def _isolation(self, network: str, node: str | None) -> Iterator[tuple]:
        """One workload of a network on each host against every other network, on a host that the seed chooses."""
        begin, count = self.selection.number("others", network), self._others.count(network)
        most = min(count, MOST_NETWORKS) if self.is_bounded else count
        others = [self._others.at(network, begin % count + step) for step in range(most)]
        for here in self.roles[network] if node is None else (node,):
            members = self._sending(network, here)
            if not members:
                continue
            source = self.selection.one_of(members, "isolation", network, here)
            for other in (name for name in others if name not in self.networks[source]):
                key = ("isolation", network, here, other)
                groups = self._groups[other]
                targets = groups[self.selection.number(*key, "host") % len(groups)]
                yield source, self.selection.one_of(targets, *key, "target"), other, key

    def _sending(self, network: str, host: str) -> list[str]:
        """Return the workloads of a host that may send on a network."""
        groups = self.members[network]
        return [name for role in self.roles[network][host] if role != LOCKED_ROLE for name in groups[host, role]]

    def left_out(self) -> list[str]:
        """Return which workloads and networks are not tested, one line for each reason."""
        lines = []
        alone = [name for name, groups in self.members.items() if sum(map(len, groups.values())) == 1]
        if alone:
            lines.append(f"{some_of(alone, MOST_NAMES)}: one workload only, which has no peer on its network")
        lines += [
            f"policies: {len(groups)} of {len(groups) ** 2} pairs of groups that policies distinguish on {network}"
            for network, groups in self.alike.items()
            if self.is_bounded and len(groups) > MOST_POLICY_GROUPS
        ]
        others = len(self.members) - 1
        if self.is_bounded and others > MOST_NETWORKS:
            lines.append(f"isolation: each network was tested against {MOST_NETWORKS} of the {others} others")
        return lines
