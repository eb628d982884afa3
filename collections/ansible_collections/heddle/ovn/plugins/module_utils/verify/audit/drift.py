# SPDX-License-Identifier: Apache-2.0
"""Drift: differences between a host and its plan, from the changes that an engine would make. Pure.

Drift is one entry per object and column: `substrate`, `kind`, `name`, `network`, `column`, `expected`, `found`. If a
whole object is missing or too many, `column` is None and the absent side is None.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...common.change import Change, Outcome
from ..other_plans import other_plans


def drift(outcome: Outcome) -> list[dict]:
    """Return the drift that the changes would correct.

    Objects that are missing together with their namespace or link are not listed separately, and a bridge that several
    parts of the host need is listed once.
    """
    created: set[tuple[str, str, str]] = set()
    changes = []
    for change in outcome.changes:
        name = (change.substrate, change.kind, change.name)
        if change.action == "create" and change.kind == "Bridge" and name in created:
            continue
        if change.action == "create":
            created.add(name)
        changes.append(change)
    return [entry for change in changes if not _goes_along(change, created) for entry in _entries(change)]


def _goes_along(change: Change, created: set[tuple[str, str, str]]) -> bool:
    """Return whether a change follows from a missing namespace (`NAMESPACE/LINK`) or link that is created anyway."""
    namespace, slash, _link = change.name.partition("/")
    if slash and (change.substrate, "network namespace", namespace) in created:
        return True
    return change.kind != "link" and (change.substrate, "link", change.name) in created


def _entries(change: Change) -> list[dict]:
    head = {"substrate": change.substrate, "kind": change.kind, "name": change.name, "network": change.network}
    expected, found = _plain(change.after), _plain(change.before)
    if change.action == "create":
        return [{**head, "column": None, "expected": expected, "found": None}]
    if change.action == "delete":
        return [{**head, "column": None, "expected": None, "found": found}]
    return [
        {**head, "column": column, "expected": expected.get(column), "found": found.get(column)}
        for column in sorted({*expected, *found})
        if expected.get(column) != found.get(column)
    ]


def _plain(value):
    """Return a value as JSON-serialisable data; sets become sorted lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def audit_report(
    hosts: dict[str, dict],
    wanted: list[str],
    intended: str | None,
    host_plans: dict[str, str] | None,
    *,
    foreign_fails: bool,
) -> dict:
    """Return the audit of all hosts together.

    `hosts` maps each host that answered to its report, or to its `error`; `wanted` are all of them. `intended` is the
    digest of the plan that the stored manifests make, and `host_plans` has by host that of its part, if known.
    """
    problems = [f"{name}: did not answer" for name in wanted if name not in hosts]
    if not wanted:
        problems.append("no host was audited; name hosts of the group heddle_nodes in heddle_audit_hosts")
    answered = {}
    for name, host in hosts.items():
        if host.get("error"):
            problems.append(f"{name}: {host['error']}")
            continue
        answered[name] = host
        problems += [f"{name}: {line}" for line in host["problems"]]
    problems += other_plans({name: host["digest"] for name, host in answered.items()}, host_plans)
    clean = not any(host["drift"] or (foreign_fails and host["foreign"]) for host in answered.values())
    return {
        "format": 1,
        "plan": intended or "",
        # None: the state database did not answer, so that hosts may have an older plan.
        "host_plans": host_plans,
        "passed": bool(answered) and clean and not problems,
        "problems": problems,
        "hosts": answered,
    }
