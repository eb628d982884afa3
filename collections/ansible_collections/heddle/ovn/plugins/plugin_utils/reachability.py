# SPDX-License-Identifier: Apache-2.0
"""The report of reachability, from what the hosts returned in a play."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack, unpack
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import merged
from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate, unconfirmed
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.fleet import FleetExpectations
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import Expectations, expand, expand_again
from ansible_collections.heddle.ovn.plugins.module_utils.verify.report_tables import reachability_table

EMPTY = {"deployment": "", "digest": "", "revision": 0, "nodes": {}, "networks": {}, "workloads": {}, "settings": {}}
STEPS = ("responding", "probed", "confirmed", "stopped")
# What a report has of failures, each a list of lines.
WRONG = ("failures", "not_tested", "problems")


def _host(results: dict, asked: Expectations | None) -> dict:
    for name in STEPS:
        result = results.get(name) or {}
        if result.get("failed") or result.get("msg") or (name == "probed" and "record" not in result):
            return {"error": str(result.get("msg", f"it could not be {name}"))}
    if asked is None:
        return {"error": "it is not in the plan of the other hosts"}
    probed, again = unpack(results["probed"]["record"]), None
    if "record" in (results.get("confirmed") or {}):
        again = unpack(results["confirmed"]["record"])
    try:
        seen = expand(probed, asked)
        alone = expand_again(again, asked, seen) if again else {}
    except ValueError as error:
        return {"error": str(error)}
    stopped = results.get("stopped") or {}
    received = stopped.get("received")
    return {
        "seen": seen,
        "again": alone,
        "slowest": probed["slowest"],
        "digest": results["responding"].get("digest", ""),
        "received": unpack(received) if received else [],
        "unrecorded": bool(stopped.get("problems")),
        "problems": sorted({line for name in STEPS for line in (results.get(name) or {}).get("problems", [])}),
    }


def _again(report: dict, asked: dict[str, Expectations], hosts: dict[str, dict]) -> dict[str, str]:
    """Return, for each host with unconfirmed results, the module's option `again`."""
    wanted, found = set(unconfirmed(report)), {}
    if not wanted:
        return found
    slowest = report["slowest_milliseconds"] / 1000
    for name, one in asked.items():
        keys = [(row.source, row.target, row.network, row.address) for row in one.rows]
        numbers = [number for number, key in enumerate(keys) if key in wanted]
        if numbers and "seen" in hosts.get(name, {}):
            found[name] = pack(
                {"unconfirmed": numbers, "good": one.known_good(hosts[name]["seen"]), "slowest": slowest}
            )
    return found


def _results(variables: dict, prefix: str) -> dict | None:
    """Return the module's results of a host, None when it could not be reached."""
    found = {step: dict(variables.get(f"{prefix}{step}") or {}) for step in STEPS}
    if not found["responding"] or not found["probed"] or any("unreachable" in one for one in found.values()):
        return None
    return found


def _plan(documents: Iterable[str]) -> dict:
    host_plans = [unpack(document) for document in documents]
    return merged(host_plans) if host_plans else EMPTY


def merged_plan(documents: list) -> str:
    """Return the plan of which hosts have these parts, packed as they are; "" without any."""
    plan = _plan(documents)
    return "" if plan is EMPTY else pack(plan)


def reachability_report(
    hostvars: dict,
    nodes: list,
    external: dict | None = None,
    pairs: str = "classes",
    seed: str = "",
    prefix: str = "heddle_",
    host_plans: dict | None = None,
) -> dict:
    """Return the result, files of a report, packets worth tracing, and the questions to ask again.

    The report has a row for each north-south flow and the plan all workloads. Ansible would walk through all of it in
    each task that has the variable, so both are packed, as the module `report` reads them.
    """
    external, selection = external or {}, Selection(pairs, seed)
    found = {name: _results(hostvars[name], prefix) for name in dict.fromkeys([*nodes, *external]) if name in hostvars}
    results = {name: one for name, one in found.items() if one is not None}
    # Also of hosts that were lost since: all hosts have asked by the plan of those that began.
    begun = [dict(hostvars[name].get(f"{prefix}responding") or {}) for name in found]
    plan = _plan(one["document"] for one in begun if "document" in one)
    fleet = FleetExpectations.of(plan, external, selection)
    asked = Expectations.of_hosts(fleet)
    hosts = {name: _host(result, asked.get(name)) for name, result in results.items()}
    report = evaluate(plan, hosts, external, selection, fleet, host_plans)
    report = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **report}
    text = "\n".join(reachability_table(report))
    known = plan if plan is not EMPTY else None
    return {
        "passed": report["passed"],
        **{part: report[part] for part in WRONG},
        "text": text,
        "files": pack(
            {"verify.json": f"{json.dumps(report)}\n", "verify.txt": f"{text}\n", "plan.json": f"{json.dumps(known)}\n"}
        ),
        "again": _again(report, asked, hosts),
    }
