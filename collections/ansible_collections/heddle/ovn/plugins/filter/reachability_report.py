# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The reachability that all hosts saw, against what the plan says."""

from __future__ import annotations

DOCUMENTATION = r"""
name: reachability_report
short_description: The reachability that all hosts saw, against what the plan says
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Puts the results of M(heddle.ovn.reachability) of all hosts together.
  - Pairs of workloads whose hosts did not answer are not tested, which is no success.
options:
  _input:
    description:
      - By host, a dictionary with the module's results C(responding), C(probed) and C(stopped).
      - A host that did not answer is left out.
    type: dict
    required: true
  outside:
    description: The module's option of the same name; these hosts' results belong into the input too.
    type: dict
    default: {}
  targets:
    description: The module's option of the same name.
    type: int
"""

EXAMPLES = r"""
- name: Judge
  ansible.builtin.set_fact:
    judged: "{{ {'node1': results} | heddle.ovn.reachability_report }}"
  vars:
    results: {responding: "{{ responding }}", probed: "{{ probed }}", stopped: "{{ stopped }}"}
"""

RETURN = r"""
_value:
  description:
    - C(report) is the report, C(plan) the plan that it was made with (none if no host had one), and C(packets) are
      packets worth tracing.
    - In the report, C(passed) says whether everything was tested and as it must be; C(failures), C(not_tested) and
      C(problems) are lines of text; C(networks) has counts by network and family; C(matrix) has one symbol for each
      target in a row for each source; C(pairs) has every address; C(north_south) has what crosses networks' borders.
  type: dict
"""

from datetime import UTC, datetime

from ansible_collections.heddle.ovn.plugins.module_utils.document import unpack
from ansible_collections.heddle.ovn.plugins.module_utils.verify.judgement import judge
from ansible_collections.heddle.ovn.plugins.module_utils.verify.packets import traced_packets

NOBODY = {"deployment": "", "digest": "", "revision": 0, "nodes": {}, "networks": {}, "workloads": {}, "settings": {}}


def _host(results: dict) -> dict:
    for name in ("responding", "probed", "stopped"):
        result = results.get(name) or {}
        if result.get("failed") or (name == "probed" and "seen" not in result):
            return {"error": str(result.get("msg", f"it could not be {name}"))}
    return {
        "seen": results["probed"]["seen"],
        "digest": results["probed"]["digest"],
        "heard": results["stopped"].get("heard", []),
        "problems": sorted({*results["responding"].get("problems", []), *results["probed"]["problems"]}),
    }


def reachability_report(results: dict, outside: dict | None = None, targets: int | None = None) -> dict:
    """Return report, plan and packets worth tracing."""
    documents = [
        result["probed"]["document"] for result in results.values() if "document" in (result.get("probed") or {})
    ]
    plans = [unpack(document) for document in dict.fromkeys(documents)]
    plan = max(plans, key=lambda one: one["revision"], default=None)
    report = judge(plan or NOBODY, {name: _host(result) for name, result in results.items()}, outside, targets)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return {"report": {"time": time, **report}, "plan": plan, "packets": traced_packets(plan) if plan else []}


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"reachability_report": reachability_report}
