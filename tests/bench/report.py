# SPDX-License-Identifier: Apache-2.0
"""The figures as a table: one line per question, one column per size, the goal at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

NORTHD_PARTS = ("northd", "northd, one thread", "northd, C library's malloc")
RECOMPUTE = "recompute of everything"
# The steps of `northd.py`, with the goals at 1,000 networks.
NORTHD_STEPS = {
    "all networks": "<= 15 s",
    RECOMPUTE: "",
    "one network more": "<= 1 s",
    "one network more, as ovn-nbctl waits": "",
    "one column of a port": "",
    "one port more": "",
    "one remote port more": "",
}


def table(found: dict) -> str:
    """Return the table as text."""
    sizes = found["sizes"]
    lines = [("networks", *(f"{count:,}" for count in sizes), "goal"), *_lines(sizes)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    text = []
    for label, *cells, goal in lines:
        columns = [cell.rjust(width) for cell, width in zip(cells, widths[1:-1], strict=True)]
        text.append("  ".join([label.ljust(widths[0]), *columns, goal]).rstrip())
    load = f"load {found['load before']:.1f} to {found['load after']:.1f}"
    head = ", ".join([*found["versions"], f"{found['processors']} processors", load])
    return "\n".join([head, "", *text])


def _lines(sizes: dict) -> Iterator[tuple[str, ...]]:
    def line(label: str, goal: str, cell: Callable[[dict], str]) -> tuple[str, ...]:
        return (label, *(_cell(cell, figures) for figures in sizes.values()), goal)

    def ratio(part: str, over: str, under: str) -> Callable[[dict], str]:
        return lambda figures: f"{figures[part]['seconds'][over] / figures[part]['seconds'][under]:.2f} x"

    def seconds(part: str, label: str) -> Callable[[dict], str]:
        return lambda figures: f"{figures[part]['seconds'][label]:.3f} s"

    def milliseconds(label: str) -> Callable[[dict], str]:
        return lambda figures: f"{figures['engine']['seconds'][label] * 1000:.1f} ms"

    def megabytes(label: str) -> Callable[[dict], str]:
        return lambda figures: f"{figures['decision']['size'][label] / 1e6:.2f} MB"

    yield line("rows", "", lambda figures: f"{figures['engine']['rows']:,}")
    for label in ("validate", "admit, allocate", "admit again", "plan", "render"):
        yield line(label, "linear", seconds("decision", label))
    yield line(
        "state database", "linear", lambda figures: f"{figures['decision']['size']['state database'] / 1e6:.2f} MB"
    )
    yield line("plan as text", "linear", lambda figures: f"{figures['decision']['size']['plan'] / 1e6:.2f} MB")
    for label in ("raw create", "create", "raw read", "no change"):
        yield line(label, "", seconds("engine", label))
    yield line("create over raw", "<= 1.25 x", ratio("engine", "create", "raw create"))
    yield line("no change over raw read", "<= 1.25 x", ratio("engine", "no change", "raw read"))
    yield line(
        "no change, as recorded, over raw read", "<= 1.25 x", ratio("engine", "no change, as recorded", "raw read")
    )
    yield line("no change, transactions", "0", lambda figures: str(figures["engine"]["transactions"]["no change"]))
    for label in ("one network, no change", "one network, changed", "one network, removed"):
        yield line(
            label, "<= 5 ms", lambda figures, label=label: f"{figures['engine']['seconds'][label] * 1000:.1f} ms"
        )
    yield line("ovsdbapp create over engine", "", ratio("ovsdbapp", "ovsdbapp create", "create"))
    yield line("ovsdbapp read over engine, no change", "", ratio("ovsdbapp", "ovsdbapp read", "no change"))
    yield line("memory, largest", "<= 200 MB at 1,000", lambda figures: f"{figures['memory']['no change']:.0f} MB")
    for label, goal in (("idle", ""), ("raw create", ""), ("create", "<= 50 ms"), ("raw read", ""), ("no change", "")):
        yield line(
            f"others wait at most, {label}",
            goal,
            lambda figures, label=label: f"{figures['waiting'][label]['longest'] * 1000:.1f} ms",
        )
    yield line("empty playbook", "", seconds("playbook", "empty playbook"))
    yield line(
        "playbook without change, beyond that",
        "<= 1.5 s at 1,000",
        lambda figures: f"{_beyond(figures['playbook']['seconds']):.2f} s",
    )
    for part in NORTHD_PARTS:
        for step, goal in NORTHD_STEPS.items():
            yield line(f"{part}: {step}", goal, lambda figures, part=part, step=step: _northd(figures[part], step))
        yield line(
            f"{part}: one network more, over {RECOMPUTE}", "", lambda figures, part=part: _over_recompute(figures[part])
        )
    yield line("logical flows per network", "", lambda figures: _flows(figures))
    for label in ("create", "no change"):
        yield _growth(sizes, label)


def _cell(cell: Callable[[dict], str], figures: dict) -> str:
    try:
        return cell(figures)
    except KeyError:
        return "-"


def _beyond(seconds: dict) -> float:
    return seconds["no change"] - seconds["empty playbook"]


def _northd(figures: dict, step: str) -> str:
    return f"{figures['steps'][step]['northd']:.2f} s"


def _over_recompute(figures: dict) -> str:
    steps = figures["steps"]
    return f"{steps['one network more']['northd'] / steps[RECOMPUTE]['northd']:.2f} x"


def _flows(figures: dict) -> str:
    networks = figures["decision"]["size"]["networks"]
    return f"{figures['northd']['logical flows'] / networks:.0f}"


def _growth(sizes: dict, label: str) -> tuple[str, ...]:
    """How much longer a size takes than the one before it, over how much larger it is."""
    cells, before = [], None
    for count, figures in sizes.items():
        seconds = figures["engine"]["seconds"][label]
        if before is None:
            cells.append("-")
        else:
            cells.append(f"{seconds / before[1]:.2f} x for {count / before[0]:g} x")
        before = count, seconds
    return (f"{label}, growth", *cells, "<= 4.5 x for 4 x")
