# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The last verify, audit, upgrade and migration: their results in a few lines, and where all of it is."""

from __future__ import annotations

from datetime import UTC, datetime

from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.tables import cause_lines, note_lines

from .report_directory import ReportDirectory

_MOST_LINES = 40


def runs(report: ReportDirectory) -> list[dict]:
    """Return one entry for each: `passed` is None if there is no result; `lines` says what is wrong."""
    found = []
    for name, file, links, playbook, summarised in _RUNS:
        content = report.read(file)
        entry = {
            "name": name,
            "passed": None,
            "time": None,
            "summary": f"run {playbook}",
            "lines": [],
            "host_plans": {},
        }
        if content is not None:
            try:
                entry |= {"time": report.written(file), **summarised(content)}
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                report.problems.append(f"{file} is of another version ({error!r}); run {playbook} again")
        more = len(entry["lines"]) - _MOST_LINES
        entry["lines"] = [*entry["lines"][:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])]
        found.append({**entry, "links": report.links(*links)})
    return found


def _verify(content: dict) -> dict:
    counts = content["counts"]
    flows = len(content.get("north_south", {}).get("flows", ()))
    wrong = [*content["failures"], *content["not_tested"], *content["problems"]]
    return {
        "passed": content["passed"],
        "time": content["time"],
        "host_plans": content.get("host_plans", {}),
        "summary": f"{counts['reached']} reached, {counts['isolated']} isolated, {flows} north-south, "
        f"{len(wrong)} wrong",
        "lines": wrong,
    }


def _audit(content: dict) -> dict:
    hosts = content["hosts"]
    drift, foreign = (sum(len(host[part]) for host in hosts.values()) for part in ("drift", "foreign"))
    return {
        "passed": content["passed"],
        "time": content["time"],
        "host_plans": {name: host["digest"] for name, host in hosts.items()},
        "summary": f"{sum(host['checked'] for host in hosts.values())} objects on {_counted(len(hosts), 'host')}, "
        f"{drift} drifted, {foreign} foreign",
        "lines": [
            *content["problems"],
            *(f"{name}: {line}" for name, host in hosts.items() for line in cause_lines(host)),
            *(f"{name}: note: {line}" for name, host in hosts.items() for line in note_lines(host)),
        ],
    }


def _upgrade(content: dict) -> dict:
    steps, traffic = content["steps"], content["traffic"]
    lost = sum(row["lost"] - row["lost_by_moves"] for row in traffic.get("kinds", ()))
    sent = sum(row["sent"] for row in traffic.get("kinds", ()))
    measured = f", {lost} of {sent} packets lost" if sent else ""
    hosts = _counted(len(content["survey"]["versions"]), "host")
    ended = {"time": datetime.fromtimestamp(steps[-1]["time"], UTC).isoformat(timespec="seconds")} if steps else {}
    return {
        "passed": not content["failures"],
        "summary": f"Layer2 topology {content['survey']['goal']} on {hosts}{measured}",
        "lines": content["failures"],
        **ended,
    }


def _migration(content: dict) -> dict:
    downtime = content.get("downtime_ms")
    return {
        "passed": content["node"] == content["to"],
        "summary": f"{content['workload']} from {content['from']} to {content['node']}"
        + (f", downtime {downtime} ms" if downtime not in (None, "") else ""),
        "lines": [],
    }


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


_RUNS = (
    ("verify", "verify.json", ("verify.txt", "first_light.html", "gateways.html"), "heddle.ovn.verify", _verify),
    ("audit", "audit.json", ("audit.json",), "heddle.ovn.audit", _audit),
    (
        "upgrade", "upgrade_layer2.json", ("upgrade_layer2.html", "upgrade_layer2.json"),
        "heddle.ovn.upgrade_layer2", _upgrade,
    ),
    (
        "migration", "migrate_workload.json", ("migrate_workload.json",), "heddle.ovn.migrate_workload",
        _migration,
    ),
)  # fmt: skip
