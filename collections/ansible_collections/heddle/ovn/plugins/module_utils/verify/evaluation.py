# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a reachability run: expectations against observed answers, of all hosts together. Pure.

A packet that must not arrive and did has failed at once. A question that must be answered counts as failed only after
it was asked alone (`probe_scheduling.confirm`): either its answer was wrong again, or it had none, several times, while
known-good questions between the same hosts were answered. If those were not answered, or too late, the result is "not
tested".
"""

from __future__ import annotations

from collections import Counter

from ..render.common.host_plan import HostPlans
from . import external_evaluation
from .expectations.coverage import coverage
from .expectations.expectation import Pair, fields_of, is_attached
from .expectations.external_expectations import left_out
from .expectations.fleet import FleetExpectations
from .expectations.selection import Selection
from .other_plans import other_plans
from .probing.result import FAILED, ISOLATED, NOT_TESTED, REACHED, SYMBOLS, Silence

FORMAT = 2
SELF = "-"
# With more pairs than this, the report lists only those that failed or were not tested.
MOST_PAIRS = 5000
# With more workloads than this, the report has no matrix: that would be the square of them, 4 MB here.
MOST_IN_MATRIX = 2000


def evaluate(
    plan: dict,
    hosts: dict[str, dict],
    external: dict[str, list[str]] | None = None,
    selection: Selection | None = None,
    fleet: FleetExpectations | None = None,
    stored: dict[str, str] | None = None,
) -> dict:
    """Return the report. `hosts` maps each host that answered, external ones included, to its results.

    Those are `seen` by (source, target, network, address) as `prober.expand` returns it, `again` by the same key for
    questions asked alone, `slowest` answer in ms, `received` as the reachability module returns it, `digest` of its
    part of the plan, and `problems`, one line each; or `error`, why the host could not test. `unrecorded` says that it
    may have received more. `external` and `selection` are those that the hosts were given; `fleet` are the
    expectations, if they were computed before. `stored` has by host the digest of the part of the plan that the stored
    manifests make; None where that is not known.
    """
    external = external or {}
    fleet = fleet or FleetExpectations.of(plan, external, selection or Selection())
    # With the workloads of address pools, which hosts have in another part of their plans.
    given, plan = plan, fleet.plan
    tested = {name for name, host in hosts.items() if not host.get("error")}
    seen = {key: one for name in tested for key, one in hosts[name]["seen"].items()}
    received = {tuple(key): late for name in tested for *key, late in hosts[name]["received"]}
    silence = Silence(hosts, {name: one["node"] for name, one in plan["workloads"].items()})
    pairs = [_evaluated(plan, pair, seen, received, tested, silence) for pair in fleet.pairs]
    rows = external_evaluation.evaluated(plan, fleet.flows, seen, received, tested, silence)
    failures = [one["text"] for one in pairs + rows if one["result"] == FAILED]
    problems = _problems(given, [*plan["nodes"], *external], hosts, stored)
    untested = _not_tested(pairs, "addresses") + _not_tested(rows, "external_flows")
    counts = Counter(pair["result"] for pair in pairs)
    listed = pairs if len(pairs) <= MOST_PAIRS else [one for one in pairs if one["result"] in (FAILED, NOT_TESTED)]
    return {
        "format": FORMAT,
        "deployment": plan["deployment"],
        "plan": plan["digest"],
        # Of the hosts that answered.
        "host_plans": {name: hosts[name]["digest"] for name in plan["nodes"] if name in tested},
        "revision": plan["revision"],
        "passed": bool(tested) and not failures and not problems and not untested,
        "counts": {"pairs": len(pairs), **{result: counts[result] for result in SYMBOLS}},
        "coverage": coverage(fleet, pairs, rows),
        "networks": _by_network(plan, pairs),
        "workloads": list(plan["workloads"]),
        "matrix": _matrix(plan, pairs),
        "failures": failures,
        "failures_by_hosts": _by_hosts(plan, [one for one in pairs + rows if one["result"] == FAILED]),
        "not_tested": untested,
        "problems": problems,
        "slowest_milliseconds": max((hosts[name].get("slowest", 0) for name in tested), default=0),
        "pairs": [{key: value for key, value in pair.items() if key != "text"} for pair in listed],
        "north_south": external_evaluation.report(plan, rows, left_out(plan, external, fleet.untested)),
    }


def unconfirmed(report: dict) -> list[tuple]:
    """Return the questions to ask again alone: a required answer is missing or wrong, or silence could not be tested.

    Each is (source, target, network, address), as in the report that `evaluate` made.
    """
    return [
        (one["source"], one["target"], one["network"], one["address"])
        for one in [*report["pairs"], *report["north_south"]["flows"]]
        if one.get("unconfirmed")
    ]


def _evaluated(
    plan: dict, pair: Pair, seen: dict, received: dict[tuple, float], tested: set[str], silence: Silence
) -> dict:
    key = (pair.source, pair.target, pair.network, pair.address)
    one = seen.get(key, {})
    by, on = one.get("answered_by"), one.get("answered_on")
    arrived = key in received
    found = {
        **fields_of(pair),
        "answered_by": by,
        "answered_on": on,
        "milliseconds": one.get("milliseconds"),
        "arrived": arrived,
        "unconfirmed": False,
    }
    silent = [plan["workloads"][end]["node"] for end in (pair.source, pair.target)]
    missing = [node for node in dict.fromkeys(silent) if node not in tested]
    if missing or key not in seen:
        why = f"{', '.join(missing)} did not answer" if missing else "its source could not send"
        return {**found, "result": NOT_TESTED, "text": why}
    reached = (by, on) == (pair.target, pair.network)
    if not pair.reach:
        if reached or arrived:
            return {**found, "result": FAILED, "text": _explained(pair, by, on, arrived, reached)}
        # Where networks have equal subnets, the workload of an own network that has the address may answer.
        if on and not is_attached(plan, pair.source, on):
            text = f"{_named(pair)}: {by} answered on {on}, which {pair.source} is not attached to"
            return {**found, "result": FAILED, "text": text}
        return {**found, **silence.of_isolated(key, one)}
    if reached and (not pair.mtu or one.get("large")):
        return {**found, "result": REACHED, "text": ""}
    if reached:
        text = f"{_named(pair)}: packets of {pair.mtu} bytes get no answer, small ones do"
    else:
        text = _explained(pair, by, on, arrived, reached)
    evaluated = silence.of_required if by is None or reached else silence.of_wrong
    return {**found, **evaluated(key, text, plan["workloads"][pair.source]["node"], received.get(key))}


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


def _by_hosts(plan: dict, failed: list[dict]) -> list[dict]:
    """Return `source` and `target` host, what is `wrong`, how many `questions` and which `networks`, the most first.

    One cause, such as a host without connectivity, fails many questions between the same hosts.
    """
    found: dict[tuple[str, str, str], list[dict]] = {}
    for one in failed:
        source, target = (
            plan["workloads"][end]["node"] if end in plan["workloads"] else end
            for end in (one["source"], one["target"])
        )
        if not one["reach"]:
            wrong = "reaches but must not"
        elif one["answered_by"] is None:
            wrong = "no answer"
        else:
            right = (one["answered_by"], one["answered_on"]) == (one["target"], one["network"])
            wrong = "wrong size or source address" if right else "answered by another"
        found.setdefault((source, target, wrong), []).append(one)
    rows = [
        {
            "source": source,
            "target": target,
            "wrong": wrong,
            "questions": len(members),
            "networks": sorted({one["network"] for one in members if one["network"]}),
        }
        for (source, target, wrong), members in found.items()
    ]
    return sorted(rows, key=lambda row: -row["questions"])


def _problems(plan: dict, wanted: list[str], hosts: dict[str, dict], stored: dict[str, str] | None) -> list[str]:
    problems = [f"{name}: did not answer" for name in wanted if name not in hosts]
    for name, host in hosts.items():
        problems += (
            [f"{name}: {host['error']}"] if host.get("error") else [f"{name}: {line}" for line in host["problems"]]
        )
    found = {name: host["digest"] for name, host in hosts.items() if name in plan["nodes"] and not host.get("error")}
    if stored is not None:
        return problems + other_plans(found, stored)
    # The plan is merged of the hosts' parts, so each has what it should, unless some are parts of another plan.
    others = [name for name, digest in HostPlans(plan).digests.items() if found.get(name, digest) != digest]
    if others:
        problems.append(f"hosts have parts of different plans ({', '.join(others)}); run heddle.ovn.networks")
    return problems


def _not_tested(pairs: list[dict], what: str) -> list[str]:
    """One line for each source, so that a missing host does not flood the output."""
    reasons = Counter((pair["source"], pair["text"]) for pair in pairs if pair["result"] == NOT_TESTED)
    return [f"{source}: {count} {what} not tested, {why}" for (source, why), count in reasons.items()]


def _by_network(plan: dict, pairs: list[dict]) -> list[dict]:
    counts = Counter((pair["network"], pair["family"], pair["reach"], pair["result"]) for pair in pairs)
    rows = []
    for network, described in plan["networks"].items():
        # A network without addresses is tested with link-local ones.
        for version in described["families"] or [6]:
            cells = {
                (reach, result): counts[network, version, reach, result]
                for reach in (True, False)
                for result in SYMBOLS
            }
            row = {"network": network, "family": version}
            row["must_reach"] = sum(cells[True, result] for result in SYMBOLS)
            row["reached"] = cells[True, REACHED]
            row["must_not"] = sum(cells[False, result] for result in SYMBOLS)
            row["isolated"] = cells[False, ISOLATED]
            row["not_tested"] = cells[True, NOT_TESTED] + cells[False, NOT_TESTED]
            rows.append(row)
    return rows


def _matrix(plan: dict, pairs: list[dict]) -> dict[str, str]:
    """Return a row of symbols for each source, one for each target in the order of the plan; the worst one wins.

    No rows with more than MOST_IN_MATRIX workloads.
    """
    if len(plan["workloads"]) > MOST_IN_MATRIX:
        return {}
    order = list(SYMBOLS)
    worst: dict[tuple[str, str], int] = {}
    for pair in pairs:
        key = (pair["source"], pair["target"])
        worst[key] = min(worst.get(key, len(order) - 1), order.index(pair["result"]))
    names = list(plan["workloads"])
    return {
        source: "".join(
            SELF if source == target else SYMBOLS[order[worst[source, target]]] if (source, target) in worst else " "
            for target in names
        )
        for source in names
    }
