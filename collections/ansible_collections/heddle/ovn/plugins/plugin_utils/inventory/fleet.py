# SPDX-License-Identifier: Apache-2.0
"""What the check reads of an inventory, without Ansible's classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

NODES, STATE, EXTERNAL = "heddle_nodes", "heddle_state", "heddle_external"
CONTROL = "localhost"
_MOST_NAMES = 5


@dataclass(frozen=True)
class Unreadable:
    """A variable whose template fails, with the reason."""

    reason: str


@dataclass(frozen=True)
class Mistake:
    """One mistake. `hosts` are those that it is found on; none for a mistake of groups or of the control node."""

    hosts: tuple[str, ...]
    variable: str
    rule: str
    remedy: str
    origin: str = ""


@dataclass(frozen=True)
class Fleet:
    """An inventory.

    `groups` has the hosts of each group, `variables` the templated variables of each host of the groups and of the
    control node, `names` all that are set there, with the file and line (or ""), `common` those of the deployment and
    of the run, `differing` the hosts that have another value of such a variable than the control node.
    """

    groups: dict[str, list[str]]
    variables: dict[str, dict] = field(default_factory=dict)
    names: dict[str, dict[str, str]] = field(default_factory=dict)
    common: dict = field(default_factory=dict)
    differing: dict[str, list[str]] = field(default_factory=dict)
    exists: Callable[[str], bool] = lambda _path: True

    def hosts(self, *groups: str) -> list[str]:
        """Return the hosts of some groups, each once; the control node is a group of its own."""
        found = [name for group in groups for name in ([CONTROL] if group == CONTROL else self.groups.get(group, []))]
        return list(dict.fromkeys(found))

    def values(self, variable: str, *groups: str) -> dict:
        """Return a variable by host, where it is set and can be read."""
        found = {host: self.variables.get(host, {}).get(variable) for host in self.hosts(*groups)}
        return {host: value for host, value in found.items() if value is not None and not isinstance(value, Unreadable)}


def lines(mistakes: list[Mistake], groups: dict[str, list[str]]) -> list[str]:
    """Return one line for each mistake; an equal one of several hosts is one line that names them, or their group."""
    merged: dict[tuple, list[str]] = {}
    origins: dict[tuple, list[str]] = {}
    for mistake in mistakes:
        key = (mistake.variable, mistake.rule, mistake.remedy)
        merged.setdefault(key, []).extend(mistake.hosts)
        if mistake.origin:
            origins.setdefault(key, []).append(mistake.origin)
    found = []
    for (variable, rule, remedy), hosts in merged.items():
        place = ", ".join(dict.fromkeys(origins.get((variable, rule, remedy), [])[:3]))
        parts = [where(list(dict.fromkeys(hosts)), groups), variable, f"{rule}; {remedy}" if remedy else rule]
        found.append(": ".join(part for part in parts if part) + (f" ({place})" if place else ""))
    return found


def where(hosts: list[str], groups: dict[str, list[str]]) -> str:
    """Return how a line names some hosts: by the smallest group that has exactly these, else by their names."""
    if not hosts:
        return ""
    if len(hosts) == 1:
        return f"host {hosts[0]}"
    wanted = set(hosts) - {CONTROL}
    for name, members in sorted(groups.items(), key=lambda group: (group[0] == "all", group[0])):
        if wanted and set(members) - {CONTROL} == wanted:
            return f"group {name}"
    more = f" and {len(hosts) - _MOST_NAMES} more" if len(hosts) > _MOST_NAMES else ""
    return f"hosts {', '.join(hosts[:_MOST_NAMES])}{more}"
