# SPDX-License-Identifier: Apache-2.0
"""What was expected against what was seen, on all hosts together. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import pairwise

from . import north_south
from .crossing import crossings, left_out
from .expectation import Pair, expected
from .verdict import FAILED, ISOLATED, NOT_TESTED, REACHED, SYMBOLS

FORMAT = 1
SAME = "-"


def judge(
    plan: dict, hosts: dict[str, dict], outside: dict[str, list[str]] | None = None, targets: int | None = None
) -> dict:
    """Return the report. `hosts` has what each host that answered reported, also those outside.

    `seen` and `heard` as the reachability module returns them, `digest` of its plan, and `problems`, one line each;
    or `error`, why it could not test. `outside` and `targets` are those that hosts were asked with.
    """
    outside = outside or {}
    tested = {name for name, host in hosts.items() if not host.get("error")}
    seen = {
        (one["source"], one["target"], one["network"], one["address"]): one
        for name in tested
        for one in hosts[name]["seen"]
    }
    heard = {tuple(one) for name in tested for one in hosts[name]["heard"]}
    pairs = [_judged(plan, pair, seen, heard, tested) for pair in expected(plan, None, targets)]
    rows = north_south.judged(plan, crossings(plan, outside), seen, heard, tested)
    failures = [one["text"] for one in pairs + rows if one["verdict"] == FAILED]
    problems = _problems([*plan["nodes"], *outside], hosts)
    untested = _not_tested(pairs, "addresses") + _not_tested(rows, "crossings")
    counts = Counter(pair["verdict"] for pair in pairs)
    return {
        "format": FORMAT,
        "deployment": plan["deployment"],
        "plan": plan["digest"],
        "revision": plan["revision"],
        "passed": bool(tested) and not failures and not problems and not untested,
        "counts": {"pairs": len(pairs), **{verdict: counts[verdict] for verdict in SYMBOLS}},
        "networks": _by_network(plan, pairs),
        "workloads": list(plan["workloads"]),
        "matrix": _matrix(plan, pairs),
        "failures": failures,
        "not_tested": untested,
        "problems": problems,
        "slowest_milliseconds": max((pair["milliseconds"] or 0 for pair in pairs), default=0),
        "pairs": [{key: value for key, value in pair.items() if key != "text"} for pair in pairs],
        "north_south": north_south.report(plan, rows, left_out(plan, outside)),
    }


def _judged(plan: dict, pair: Pair, seen: dict, heard: set, tested: set[str]) -> dict:
    key = (pair.source, pair.target, pair.network, pair.address)
    one = seen.get(key, {})
    by, on = one.get("answered_by"), one.get("answered_on")
    arrived = key in heard
    found = {
        **asdict(pair),
        "answered_by": by,
        "answered_on": on,
        "milliseconds": one.get("milliseconds"),
        "heard": arrived,
    }
    silent = [plan["workloads"][end]["node"] for end in (pair.source, pair.target)]
    missing = [node for node in dict.fromkeys(silent) if node not in tested]
    if missing or key not in seen:
        why = f"{', '.join(missing)} did not answer" if missing else "its source could not send"
        return {**found, "verdict": NOT_TESTED, "text": why}
    reached = (by, on) == (pair.target, pair.network)
    if reached and pair.reach and pair.mtu and not one.get("large"):
        text = f"{_named(pair)}: packets of {pair.mtu} bytes get no answer, small ones do"
        return {**found, "verdict": FAILED, "text": text}
    if reached if pair.reach else not reached and not arrived:
        return {**found, "verdict": REACHED if pair.reach else ISOLATED, "text": ""}
    return {**found, "verdict": FAILED, "text": _explained(pair, by, on, arrived, reached)}


def _explained(pair: Pair, by: str | None, on: str | None, arrived: bool, reached: bool) -> str:
    name = _named(pair)
    if not pair.reach:
        what = "answered" if reached else "got the packet, though no answer came back,"
        return f"{name}: {what} but must not: {pair.reason}"
    if by is not None:
        return f"{name}: answered by {by} on {on}"
    return f"{name}: " + ("the packet arrived, its answer did not" if arrived else "no answer")


def _named(pair: Pair) -> str:
    return f"{pair.source} -> {pair.target} {pair.address} (network {pair.network}, IPv{pair.family})"


def _problems(wanted: list[str], hosts: dict[str, dict]) -> list[str]:
    problems = [f"{name}: did not answer" for name in wanted if name not in hosts]
    for name, host in hosts.items():
        problems += (
            [f"{name}: {host['error']}"] if host.get("error") else [f"{name}: {line}" for line in host["problems"]]
        )
    digests = {name: host["digest"] for name, host in hosts.items() if not host.get("error")}
    if any(one != other for one, other in pairwise(digests.values())):
        told = ", ".join(f"{name} {value}" for name, value in digests.items())
        problems.append(f"hosts have different plans ({told}); run playbooks/networks.yml")
    return problems


def _not_tested(pairs: list[dict], what: str) -> list[str]:
    """One line for each source, so that a missing host does not fill the screen."""
    reasons = Counter((pair["source"], pair["text"]) for pair in pairs if pair["verdict"] == NOT_TESTED)
    return [f"{source}: {count} {what} not tested, {why}" for (source, why), count in reasons.items()]


def _by_network(plan: dict, pairs: list[dict]) -> list[dict]:
    counts = Counter((pair["network"], pair["family"], pair["reach"], pair["verdict"]) for pair in pairs)
    rows = []
    for network, described in plan["networks"].items():
        # A network without addresses is tested with link-local ones.
        for number in described["families"] or [6]:
            cells = {
                (reach, verdict): counts[network, number, reach, verdict]
                for reach in (True, False)
                for verdict in SYMBOLS
            }
            row = {"network": network, "family": number}
            row["must_reach"] = sum(cells[True, verdict] for verdict in SYMBOLS)
            row["reached"] = cells[True, REACHED]
            row["must_not"] = sum(cells[False, verdict] for verdict in SYMBOLS)
            row["isolated"] = cells[False, ISOLATED]
            row["not_tested"] = cells[True, NOT_TESTED] + cells[False, NOT_TESTED]
            rows.append(row)
    return rows


def _matrix(plan: dict, pairs: list[dict]) -> dict[str, str]:
    """Return a row of symbols for each source, one for each target in the order of the plan; the worst one wins."""
    order = list(SYMBOLS)
    worst: dict[tuple[str, str], int] = {}
    for pair in pairs:
        key = (pair["source"], pair["target"])
        worst[key] = min(worst.get(key, len(order) - 1), order.index(pair["verdict"]))
    names = list(plan["workloads"])
    return {
        source: "".join(
            SAME if source == target else SYMBOLS[order[worst[source, target]]] if (source, target) in worst else " "
            for target in names
        )
        for source in names
    }
