# SPDX-License-Identifier: Apache-2.0
"""Selection of test questions, so that their number grows with workloads and not with their square. Pure.

Workloads of one network on one host with one role are equivalent: OVN gives their ports the same rows but for
addresses. So one of them stands for all, and a network is covered when every pair of such groups has exchanged packets.
Where policies apply, workloads that the same policies select are such groups as well. A seed decides the choice within
a group, so all hosts make the same one, and another seed makes another.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ...common.naming import LOCKED_ROLE

CLASSES, ALL = "classes", "all"
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
        self.node = {name: one["node"] for name, one in plan["workloads"].items()}
        self.networks = {
            name: {interface["network"] for interface in one["interfaces"]} for name, one in plan["workloads"].items()
        }
        self.members: dict[str, dict[tuple[str, str], list[str]]] = {}
        for name, one in plan["workloads"].items():
            # One that is attached to a network twice is one workload of it.
            for network, role in dict.fromkeys((end["network"], end["role"]) for end in one["interfaces"]):
                self.members.setdefault(network, {}).setdefault((one["node"], role), []).append(name)
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

    def _questions(self, node: str | None) -> Iterator[tuple]:
        for network in self.members:
            within = (*self._within(network), *self._every_workload(network), *self._by_policies(network))
            for source, target, key in within:
                if node in (None, self.node[source]):
                    yield source, target, network, key
        for one in self.members:
            yield from self._isolation(one, node)

    def _within(self, network: str) -> Iterator[tuple]:
        """One question from each group to each, also within a group that has two members."""
        groups = self.members[network]
        for (here, mine), sources in groups.items():
            for (there, other), targets in groups.items():
                key = ("network", network, here, mine, there, other)
                source = self.selection.one_of(sources, *key, "source")
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

    def _by_policies(self, network: str) -> Iterator[tuple]:
        """One question from each group that policies distinguish to each other one, whatever their hosts are."""
        groups = self.alike.get(network, {})
        names = list(groups)
        for place, mine in enumerate(names):
            targets = names
            if len(names) > MOST_POLICY_GROUPS:
                step = 1 + self.selection.number("policy", network) % (len(names) - 1)
                targets = [names[(place + step) % len(names)]]
            for other in targets:
                key = ("policy", network, mine, other)
                source = self.selection.one_of(groups[mine], *key, "source")
                if others := [name for name in groups[other] if name != source]:
                    yield source, self.selection.one_of(others, *key, "target"), key

    def _isolation(self, network: str, node: str | None) -> Iterator[tuple]:
        """One workload of a network on each host against every other network, on a host that the seed chooses."""
        hosts = self._sources(network)
        others = [name for name in self.members if name != network]
        begin = self.selection.number("others", network) % max(1, len(others))
        for here, members in hosts.items():
            if node not in (None, here):
                continue
            source = self.selection.one_of(members, "isolation", network, here)
            apart = (name for name in islice([*others[begin:], *others[:begin]], MOST_NETWORKS))
            for other in (name for name in apart if name not in self.networks[source]):
                key = ("isolation", network, here, other)
                groups = list(self.members[other].values())
                targets = groups[self.selection.number(*key, "host") % len(groups)]
                yield source, self.selection.one_of(targets, *key, "target"), other, key

    def _sources(self, network: str) -> dict[str, list[str]]:
        """Return by host the workloads that may send on a network."""
        hosts: dict[str, list[str]] = {}
        for (here, role), members in self.members[network].items():
            if role != LOCKED_ROLE:
                hosts.setdefault(here, []).extend(members)
        return hosts

    def left_out(self) -> list[str]:
        """Return which workloads and networks are not tested, one line for each reason."""
        lines = []
        alone = [name for name, groups in self.members.items() if sum(map(len, groups.values())) == 1]
        if alone:
            lines.append(f"{_some(alone)}: one workload only, which has no peer on its network")
        lines += [
            f"policies: {len(groups)} of {len(groups) ** 2} pairs of groups that policies distinguish on {network}"
            for network, groups in self.alike.items()
            if len(groups) > MOST_POLICY_GROUPS
        ]
        others = len(self.members) - 1
        if others > MOST_NETWORKS:
            lines.append(f"isolation: each network was tested against {MOST_NETWORKS} of the {others} others")
        return lines


def _some(names: list[str]) -> str:
    """Return names for one line."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
