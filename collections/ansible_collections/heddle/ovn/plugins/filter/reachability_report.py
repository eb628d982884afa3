# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evaluates the reachability results of all hosts against the plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: reachability_report
short_description: Evaluate the reachability results of all hosts against the plan
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Combines the results of M(heddle.ovn.reachability) of all hosts.
  - Pairs of workloads whose hosts did not answer are reported as not tested, and the report does not pass.
options:
  _input:
    description:
      - Variables by host, like C(hostvars). The module's results are expected in C(heddle_responding),
        C(heddle_probed), C(heddle_confirmed) and C(heddle_stopped), as far as they are there.
    type: dict
    required: true
  nodes:
    description: The hosts that are nodes.
    type: list
    elements: str
    required: true
  external:
    description: The module's option of the same name; these hosts' results must be in the input too.
    type: dict
    default: {}
  pairs:
    description: The module's option of the same name.
    type: str
    default: classes
  seed:
    description: The module's option of the same name.
    type: str
    default: ""
  prefix:
    description: Prefix of the variables with the module's results.
    type: str
    default: heddle_
"""

EXAMPLES = r"""
- name: Evaluate reachability
  ansible.builtin.set_fact:
    evaluated: "{{ hostvars | heddle.ovn.reachability_report(nodes=groups['heddle_nodes']) }}"
"""

RETURN = r"""
_value:
  description:
    - C(report) is the report, C(plan) the plan that it was made with (none if no host had one), C(packets) are
      packets worth tracing, and C(again) has the module's option of the same name for hosts with questions that got no
      answer and should be asked alone.
    - In the report, C(passed) is true if everything was tested and as expected; C(failures), C(not_tested) and
      C(problems) are lines of text; C(networks) has counts by network and family; C(matrix) has one symbol for each
      target in a row for each source; C(pairs) has every address; C(north_south) has the north-south flows.
  type: dict
"""

from datetime import UTC, datetime

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack, unpack
from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate, unconfirmed
from ansible_collections.heddle.ovn.plugins.module_utils.verify.packets import traced_packets
from ansible_collections.heddle.ovn.plugins.module_utils.verify.prober import Expectations, expand, expand_again
from ansible_collections.heddle.ovn.plugins.module_utils.verify.selection import Selection

EMPTY = {"deployment": "", "digest": "", "revision": 0, "nodes": {}, "networks": {}, "workloads": {}, "settings": {}}
STEPS = ("responding", "probed", "confirmed", "stopped")


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
    received = (results.get("stopped") or {}).get("received")
    return {
        "seen": seen,
        "again": alone,
        "slowest": probed["slowest"],
        "digest": results["probed"]["digest"],
        "received": unpack(received) if received else [],
        "problems": sorted({*results["responding"].get("problems", []), *results["probed"]["problems"]}),
    }


def _again(report: dict, asked: dict[str, Expectations], hosts: dict[str, dict]) -> dict[str, str]:
    """Return, for each host with unconfirmed results, the module's option `again`."""
    wanted, found = set(unconfirmed(report)), {}
    slowest = report["slowest_milliseconds"] / 1000
    for name, one in asked.items():
        keys = [(row.source, row.target, row.network, row.address) for row in one.rows]
        numbers = [number for number, key in enumerate(keys) if key in wanted]
        if numbers and "seen" in hosts[name]:
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


def reachability_report(
    hostvars: dict,
    nodes: list,
    external: dict | None = None,
    pairs: str = "classes",
    seed: str = "",
    prefix: str = "heddle_",
) -> dict:
    """Return report, plan, packets worth tracing, and the questions to ask again."""
    external, selection = external or {}, Selection(pairs, seed)
    found = {name: _results(hostvars[name], prefix) for name in dict.fromkeys([*nodes, *external]) if name in hostvars}
    results = {name: one for name, one in found.items() if one is not None}
    documents = [one["probed"]["document"] for one in results.values() if "document" in one["probed"]]
    plans = [unpack(document) for document in dict.fromkeys(documents)]
    plan = max(plans, key=lambda one: one["revision"], default=None) or EMPTY
    known = [name for name in results if name in plan["nodes"] or name in external]
    asked = {name: Expectations.of(plan, name, external, selection) for name in known}
    hosts = {name: _host(result, asked.get(name)) for name, result in results.items()}
    report = evaluate(plan, hosts, external, selection)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "report": {"time": time, **report},
        "plan": plan if plan is not EMPTY else None,
        "packets": traced_packets(plan),
        "again": _again(report, asked, hosts),
    }


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"reachability_report": reachability_report}
