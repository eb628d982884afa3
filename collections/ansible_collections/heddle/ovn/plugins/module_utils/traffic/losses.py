# SPDX-License-Identifier: Apache-2.0
"""Evaluates the traffic of all hosts against the steps of the change. Pure.

A loss is attributed to a move when an end of its flow was being moved at that time: the workload was stopped on one
host and started on another, which no connection survives. All other losses are reported separately.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable

from .flows import LONG, NEW
from .tally import BUCKETS

# Steps with these names move workloads until the next step begins.
MOVING = ("drain", "return")
BEFORE = "before"
# Smaller clock differences are ignored: losses are recorded per tenth of a second.
_CLOCK = 0.1


def evaluate(hosts: dict[str, dict], steps: list[dict]) -> dict:
    """Return `flows`, `kinds`, `phases`, `moves`, `clocks`, `processor_seconds`, `problems` and `began` and `ended`.

    `hosts` has, for each host, `figures` (of the traffic module, or None), `clock` (by how many seconds at least and at
    most the host's clock is ahead of the control node's) and `error`. `steps` have `time`, `step`, `nodes`, `moved`.
    """
    problems = _problems(hosts)
    figures = {name: host["figures"] for name, host in hosts.items() if host.get("figures")}
    began = min((found["began"] for found in figures.values()), default=0.0)
    ended = max((found["time"] for found in figures.values()), default=0.0)
    # From here on hosts stopped one after the other.
    over = min((found["time"] for found in figures.values() if found["complete"]), default=ended)
    windows = _Windows(figures.values(), steps, ended)
    merged: dict[str, _Flow] = {}
    for name, found in figures.items():
        for segment in found["segments"]:
            merged.setdefault(segment["name"], _Flow(segment)).add(name, segment, windows, over)
    flows = [flow.as_dict() for flow in merged.values()]
    return {
        "began": began,
        "ended": ended,
        "flows": flows,
        "kinds": _kinds(flows),
        "phases": _phases(flows, figures, steps, began, ended),
        "moves": windows.as_dict(),
        "clocks": {name: host["clock"] for name, host in hosts.items() if host.get("clock")},
        "processor_seconds": {name: found["processor_seconds"] for name, found in figures.items()},
        "seconds": {name: round(found["time"] - found["began"], 1) for name, found in figures.items()},
        "problems": problems,
    }


def _problems(hosts: dict[str, dict]) -> list[str]:
    lines = []
    for name, host in hosts.items():
        found, (least, most) = host.get("figures"), host.get("clock") or (0, 0)
        if not found:
            lines.append(f"{name}: no figures ({host.get('error') or 'nothing was sent there'})")
            continue
        lines += [f"{name}: {line}" for line in found["problems"]]
        if not found["complete"]:
            lines.append(f"{name}: the process did not end by itself; its figures may lack the last seconds")
        if least > _CLOCK or most < -_CLOCK:
            lines.append(
                f"{name}: its clock differs by {min(abs(least), abs(most)):.1f} s at least; times do not match"
            )
    return lines


class _Windows:
    """Time windows in which workloads were moved."""

    def __init__(self, figures: Iterable[dict], steps: list[dict], last: float) -> None:
        self.of: dict[str, list[tuple[float, float]]] = {}
        ends = [*(step["time"] for step in steps[1:]), last]
        for step, end in zip(steps, ends, strict=False):
            if step["step"] in MOVING:
                for move in step["moved"]:
                    self.of.setdefault(move["workload"], []).append((step["time"], end))
        # Moves of an earlier run are known only from the workload's changed location.
        seen: dict[str, list[list[float | None]]] = {}
        for owner, _address, came, went in (entry for found in figures for entry in found["presence"]):
            seen.setdefault(owner, []).append([came, went])
        for owner, times in seen.items():
            for went in {end for _start, end in times if end is not None}:
                back = [start for start, _end in times if start >= went]
                if back:
                    self.of.setdefault(owner, []).append((went, min(back)))

    def during(self, ends: tuple[str, ...], start: float, end: float) -> bool:
        """Return whether one of the ends was being moved at some time in between."""
        return any(begin <= end and start <= finish for one in ends for begin, finish in self.of.get(one, []))

    def as_dict(self) -> list[list]:
        """Return workload, begin and end."""
        return [[owner, *window] for owner, found in sorted(self.of.items()) for window in sorted(set(found))]


class _Flow:
    """One flow, merged from all hosts that had its source."""

    def __init__(self, segment: dict) -> None:
        keys = ("name", "kind", "protocol", "network", "source", "target", "family", "address", "interval")
        self.base = {key: segment[key] for key in keys}
        self.ends = (segment["source"], segment["target"], *segment["endpoints"])
        self.hosts: list[list] = []
        self.counts: Counter[str] = Counter()
        self.gap = {True: 0.0, False: 0.0}
        self.slowest = 0.0
        self.losses: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
        self.resets: list[list] = []

    def add(self, host: str, segment: dict, windows: _Windows, over: float) -> None:
        """Add the figures of one host that had the source; those after `over` are left out."""
        self.hosts.append([host, segment["began"], segment["ended"]])
        for key in ("sent", "late", "retried", "connections"):
            self.counts[key] += segment.get(key, 0)
        self.slowest = max(self.slowest, segment["slowest"])
        # A connection broken by a move counts for the move until it works again, even after the move has ended.
        broken = []
        for start, end, _lost in (gap for gap in segment["gaps"] if gap[0] < over):
            moved = windows.during(self.ends, start, start + 1 / BUCKETS)
            self.gap[moved] = max(self.gap[moved], end - start)
            if moved:
                broken.append((start, end))
        for time, since, why in (reset for reset in segment.get("resets", []) if reset[0] < over):
            moved = windows.during(self.ends, since, time)
            self.resets.append([time, why, moved])
            if moved:
                broken.append((since, time + 2))
        for number, count in segment["losses"].items():
            time = int(number) / BUCKETS
            if time >= over:
                continue
            moved = windows.during(self.ends, time, time + 1 / BUCKETS)
            moved = moved or any(start <= time + 1 / BUCKETS and time <= end for start, end in broken)
            self.losses[moved][int(number)] += count

    def as_dict(self) -> dict:
        """Return the flow as JSON-ready data."""
        return {
            **self.base,
            "hosts": sorted(self.hosts, key=lambda entry: entry[1]),
            **{key: self.counts[key] for key in ("sent", "late", "retried", "connections")},
            "lost": sum(self.losses[True].values()) + sum(self.losses[False].values()),
            "lost_by_moves": sum(self.losses[True].values()),
            "longest_gap": round(self.gap[False], 3),
            "longest_gap_by_moves": round(self.gap[True], 3),
            "slowest": self.slowest,
            "resets": self.resets,
            "losses": _text(self.losses[False]),
            "losses_by_moves": _text(self.losses[True]),
        }


def _text(counter: Counter[int]) -> dict[str, int]:
    return {str(number): count for number, count in sorted(counter.items())}


def _kinds(flows: list[dict]) -> list[dict]:
    """Return the sums by kind of flow, protocol and family."""
    sums: dict[tuple, dict] = {}
    for flow in flows:
        key = (flow["kind"], flow["protocol"], flow["family"])
        row = sums.setdefault(key, {
            "kind": key[0], "protocol": key[1], "family": key[2], "flows": 0, "sent": 0, "lost": 0, "lost_by_moves": 0,
            "longest_gap": 0.0, "longest_gap_by_moves": 0.0, "slowest": 0.0, "resets": 0, "resets_by_moves": 0,
            "retried": 0,
        })  # fmt: skip
        row["flows"] += 1
        for name in ("sent", "lost", "lost_by_moves", "retried"):
            row[name] += flow[name]
        for name in ("longest_gap", "longest_gap_by_moves", "slowest"):
            row[name] = max(row[name], flow[name])
        row["resets"] += len(flow["resets"])
        row["resets_by_moves"] += sum(moved for _time, _why, moved in flow["resets"])
    return [sums[key] for key in sorted(sums)]


def _phases(flows: list[dict], figures: dict, steps: list[dict], began: float, ended: float) -> list[dict]:
    """Return the figures of each step until the next; losses of moves are not among `lost`."""
    first = [{"time": began, "step": BEFORE, "nodes": []}] if steps and began < steps[0]["time"] else []
    marks = [*first, *steps]
    starts = [mark["time"] for mark in marks]
    phases = [
        {
            "step": mark["step"], "nodes": mark["nodes"], "began": mark["time"],
            "seconds": round(max(0.0, end - mark["time"]), 1), "lost": {}, "lost_by_moves": 0, "failed": 0, "resets": 0,
            "pause": 0.0,
        }
        for mark, end in zip(marks, [*starts[1:], ended], strict=False)
    ]  # fmt: skip

    def phase_at(time: float) -> dict | None:
        place = bisect_right(starts, time) - 1
        return phases[place] if place >= 0 else None

    for flow in flows:
        for number, count in flow["losses"].items():
            if phase := phase_at(int(number) / BUCKETS):
                if flow["protocol"] == NEW:
                    phase["failed"] += count
                elif flow["protocol"] != LONG:
                    phase["lost"][flow["kind"]] = phase["lost"].get(flow["kind"], 0) + count
        for number, count in flow["losses_by_moves"].items():
            if phase := phase_at(int(number) / BUCKETS):
                phase["lost_by_moves"] += count
        for time, _why, moved in flow["resets"]:
            if not moved and (phase := phase_at(time)):
                phase["resets"] += 1
    for found in figures.values():
        for number, seconds in found["pauses"].items():
            if phase := phase_at(int(number) / BUCKETS):
                phase["pause"] = max(phase["pause"], seconds)
    return phases
