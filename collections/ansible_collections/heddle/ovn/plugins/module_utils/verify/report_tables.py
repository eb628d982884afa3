# SPDX-License-Identifier: Apache-2.0
"""Reachability reports as tables for a terminal. Pure."""

from __future__ import annotations

from ..common.text.some_of import some_of
from ..common.text.text_table import MOST_LINES, shortened, table
from .expectations.coverage import SORTS
from .expectations.selection import ALL
from .probing.result import ISOLATED, NOT_TESTED, REACHED

# Maximum number of host pairs with failures in a table.
_MOST_CAUSES = 20


def reachability_table(report: dict) -> list[str]:
    """Return lines of text: counts by network, the matrix of workloads, and what failed. `report` is verify.json."""
    rows = [
        [
            row["network"], f"IPv{row['family']}", row["must_reach"], row["reached"], row["must_not"], row["isolated"],
            row["not_tested"],
        ]
        for row in report["networks"]
    ]  # fmt: skip
    head = ["network", "family", "must reach", "reached", "must not", "isolated", "not tested"]
    counts = report["counts"]
    result = "passed" if report["passed"] else "FAILED"
    return [
        *table(f"Addresses, by their network (plan {report['plan']})", head, rows),
        *_matrix(report),
        *_north_south(report["north_south"]),
        *_failures_by_hosts(report["failures_by_hosts"]),
        *shortened("Failed", report["failures"]),
        *shortened("Not tested", report["not_tested"]),
        *shortened("Problems", report["problems"]),
        *shortened("Left out", [*report["coverage"]["left_out"], *report["north_south"]["left_out"]]),
        *_coverage(report["coverage"]),
        f"{result}: {counts['pairs']} addresses, {counts[REACHED]} reached, {counts[ISOLATED]} isolated; "
        f"{len(report['north_south']['flows'])} north-south flows; "
        f"{len(report['failures'])} failed, {_untested(report)} not tested; "
        f"slowest answer {report['slowest_milliseconds']:g} ms",
    ]


def _failures_by_hosts(found: list[dict]) -> list[str]:
    """Return one line for each pair of hosts with failures, since failures often have their hosts in common."""
    rows = [[row["source"], row["target"], row["questions"], row["wrong"], some_of(row["networks"])] for row in found]
    shown = rows[:_MOST_CAUSES]
    title = f"Failed, by hosts ({len(rows)})"
    return table(title, ["from", "to", "questions", "what", "networks"], shown) if rows else []


def _coverage(found: dict) -> list[str]:
    """Return how many classes of questions were tested, out of all."""
    lines = [f"  {one['covered']} of {one['of']}: {SORTS[sort]}" for sort, one in found["sorts"].items()]
    how = "every pair" if found["pairs"] == ALL else f"one question for each class, seed {found['seed']}"
    return [f"Covered ({how})", *lines, ""] if lines else []


def _untested(report: dict) -> int:
    external_flows = report["north_south"]["flows"]
    return report["counts"][NOT_TESTED] + sum(one["result"] == NOT_TESTED for one in external_flows)


def _north_south(found: dict) -> list[str]:
    """Return counts of north-south flows, and a row of symbols for each workload."""
    head = ["kind", "family", "must reach", "reached", "must not", "isolated", "not tested"]
    rows = [
        [
            row["kind"], f"IPv{row['family']}", row["must_reach"], row["reached"], row["must_not"], row["isolated"],
            row["not_tested"],
        ]
        for row in found["counts"]
    ]  # fmt: skip
    if not rows:
        return []
    lines = table("North-south", head, rows)
    if len(found["workloads"]) > MOST_LINES:
        return lines
    present = [
        place for place in range(len(found["kinds"])) if any(row[place] != " " for row in found["workloads"].values())
    ]
    width = max(map(len, found["workloads"]), default=0)
    title = (
        "North-south by workload ("
        + ", ".join(f"{number} {found['kinds'][place]}" for number, place in enumerate(present, start=1))
        + ")"
    )
    return [
        *lines,
        title,
        "  " + " " * width + " " + " ".join(str(number) for number in range(1, len(present) + 1)),
        *(
            f"  {name.ljust(width)} " + " ".join(row[place] for place in present)
            for name, row in found["workloads"].items()
        ),
        "",
    ]


def _matrix(report: dict) -> list[str]:
    names = report["workloads"]
    if len(names) > MOST_LINES:
        return []
    width = max((len(name) for name in names), default=0)
    digits = len(str(len(names)))
    title = "Workloads (row: source, column: target; + reaches, . isolated, both as they must; ! wrong, ? not tested)"
    heads = [
        " " * (width + digits + 4) + " ".join(str(number + 1).rjust(digits)[place] for number in range(len(names)))
        for place in range(digits)
    ]
    rows = [
        f"  {number:>{digits}} {name.ljust(width)} " + " ".join(report["matrix"][name])
        for number, name in enumerate(names, start=1)
    ]
    return [title, *heads, *rows, ""]
