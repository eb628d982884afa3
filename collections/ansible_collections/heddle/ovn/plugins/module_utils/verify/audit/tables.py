# SPDX-License-Identifier: Apache-2.0
"""Audit reports as tables for a terminal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...common.text.text_table import shortened, table

# Lines of each part of an audit for each host, and kinds of objects that one of them counts.
MOST_HOST_LINES = 20
_MOST_KINDS = 6
_UNKNOWN = "The state database did not answer; hosts may have an older plan."


def audit_table(report: dict) -> list[str]:
    """Return hosts, drift by cause, foreign objects and notes, at most `MOST_HOST_LINES` lines of each for a host."""
    hosts = [
        [
            name, host["digest"], host["checked"], len(host["drift"]), len(host["causes"]), len(host["foreign"]),
            len(host["notes"]), len(host["problems"]),
        ]
        for name, host in report["hosts"].items()
    ]  # fmt: skip
    causes = {name: cause_lines(host) for name, host in report["hosts"].items()}
    others = {name: foreign_lines(host) for name, host in report["hosts"].items()}
    notes = {name: note_lines(host) for name, host in report["hosts"].items()}
    head = ["host", "plan", "objects", "drift", "causes", "foreign", "notes", "problems"]
    drift, foreign, noted = (
        sum(len(host[part]) for host in report["hosts"].values()) for part in ("drift", "foreign", "notes")
    )
    return [
        *table(f"Hosts (plan {report['plan'] or 'not known'})", head, hosts),
        *_by_host("Drift by cause", drift, causes),
        *_by_host("Foreign objects, left alone", foreign, others),
        *_by_host("Notes", noted, notes),
        *shortened("Problems", report["problems"]),
        *([_UNKNOWN] if report.get("host_plans", {}) is None else []),
        f"{'passed' if report['passed'] else 'FAILED'}: {len(report['hosts'])} hosts, {drift} drifted, "
        f"{foreign} foreign, {noted} notes, {len(report['problems'])} problems",
    ]


def _by_host(title: str, count: int, lines: dict[str, list[str]]) -> list[str]:
    shown = [f"  {name}: {line}" for name, found in lines.items() for line in found]
    return [f"{title} ({count})", *shown, ""] if shown else []


def cause_lines(host: dict) -> list[str]:
    """Return the drift of one host by cause, in at most `MOST_HOST_LINES` lines, the largest causes first.

    Where there are more causes, those that are alike (substrate, kind, and what is wrong) have one line.
    """
    causes = sorted(host["causes"], key=lambda cause: -cause["drift"])
    if len(causes) <= MOST_HOST_LINES:
        return [_cause(cause) + _explained(cause["kinds"]) for cause in causes]
    alike: dict[tuple, list[dict]] = {}
    for cause in causes:
        alike.setdefault((cause["substrate"], cause["kind"], _state(cause)), []).append(cause)
    groups = sorted(alike.items(), key=lambda one: -sum(cause["drift"] for cause in one[1]))
    kept = groups if len(groups) <= MOST_HOST_LINES else groups[: MOST_HOST_LINES - 1]
    lines = [_alike(*key, found) for key, found in kept]
    rest = [cause for _key, found in groups[len(kept) :] for cause in found]
    if rest:
        lines.append(f"and {len(rest)} more causes of {sum(cause['drift'] for cause in rest)} entries")
    return lines


def foreign_lines(host: dict) -> list[str]:
    """Return the foreign objects of one host in at most `MOST_HOST_LINES` lines; the last one counts what is left."""
    lines = [f"{one['substrate']} {one['kind']} {one['name']}" for one in host["foreign"]]
    if len(lines) <= MOST_HOST_LINES:
        return lines
    kinds = Counter(f"{one['substrate']} {one['kind']}" for one in host["foreign"][MOST_HOST_LINES - 1 :])
    return [*lines[: MOST_HOST_LINES - 1], f"and {sum(kinds.values())} more: {_counted(kinds)}"]


def note_lines(host: dict) -> list[str]:
    """Return the notes of one host in at most `MOST_HOST_LINES` lines; the last one counts what is left."""
    lines = host["notes"]
    if len(lines) <= MOST_HOST_LINES:
        return lines
    return [*lines[: MOST_HOST_LINES - 1], f"and {len(lines) - MOST_HOST_LINES + 1} more"]


def _cause(cause: dict) -> str:
    return cause["problem"] or described(cause)


def _explained(kinds: Mapping[str, int]) -> str:
    return f"; explains {sum(kinds.values())} more: {_counted(kinds)}" if kinds else ""


def _alike(substrate: str, kind: str, state: str, causes: list[dict]) -> str:
    if len(causes) == 1:
        return _cause(causes[0]) + _explained(causes[0]["kinds"])
    kinds: Counter = Counter()
    for cause in causes:
        kinds.update(cause["kinds"])
    names = list(dict.fromkeys(cause["name"] for cause in causes))
    few = ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")
    return f"{substrate} {kind}: {len(causes)} {state} ({few})" + _explained(kinds)


def _counted(kinds: Mapping[str, int]) -> str:
    """Return counts by kind, the largest first, not more than a line bears."""
    ordered = Counter(kinds).most_common()
    more = ", ..." if len(ordered) > _MOST_KINDS else ""
    return ", ".join(f"{kind} {count}" for kind, count in ordered[:_MOST_KINDS]) + more


def _state(one: dict) -> str:
    if one["column"] is None:
        return "missing" if one["found"] is None else "not in the plan"
    return f"with another value of {one['column']}"


def described(one: dict) -> str:
    """Return one drift as a line of text."""
    network = f" (network {one['network']})" if one["network"] else ""
    name = f"{one['substrate']} {one['kind']} {one['name']}{network}"
    if one["column"] is None:
        return f"{name}: {_state(one)}"
    return f"{name}: {one['column']}: expected {_shown(one['expected'])}, found {_shown(one['found'])}"


def _shown(value) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}={_shown(item)}" for key, item in value.items()) + "}"
    return str(value)
