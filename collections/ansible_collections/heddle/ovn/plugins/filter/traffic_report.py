# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evaluates the traffic of all hosts against the steps of a change."""

from __future__ import annotations

DOCUMENTATION = r"""
name: traffic_report
short_description: Evaluate the traffic of all hosts against the steps of a change
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Combines the figures of M(heddle.ovn.traffic) of all hosts, by flow, by kind and by step.
  - Losses of flows with an end that was being moved at the time are counted separately.
options:
  _input:
    description:
      - The variables of all hosts, like C(hostvars). With O(prefix) before their names, C(sending) and C(sent) are what
        the module returned with C(state) V(started) and V(stopped), C(before) and C(after) are when the control node
        had not yet asked for the latter and had been answered, in seconds since the epoch.
      - A host that did not answer may lack any of these. One without C(sending), or where it was skipped, did not take
        part.
    type: dict
    required: true
  hosts:
    description: Names of the hosts that may have taken part. One that the variables do not have did not.
    type: list
    elements: str
    required: true
  prefix:
    description: What the names of the variables begin with.
    type: str
    default: heddle_upgrade_
  steps:
    description: The steps of the change, as dictionaries with C(time), C(step), C(nodes) and C(moved).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Evaluate the traffic
  ansible.builtin.set_fact:
    evaluated: "{{ hostvars | heddle.ovn.traffic_report(groups['heddle_nodes'], steps=[]) }}"
"""

RETURN = r"""
_value:
  description:
    - C(flows) has each flow, C(kinds) the sums by kind, protocol and family, C(phases) the losses from each step to the
      next, C(moves) when which workload was moved.
    - C(clocks) has by how many seconds at least and at most each host's clock is ahead of the control node's.
    - C(problems) are lines of text on what is wrong with the measurement itself.
    - Empty when no host took part.
  type: dict
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred

_evaluate = deferred("module_utils.traffic.losses", "evaluate")


def _results(variables: dict, prefix: str) -> dict | None:
    """Return what a host reported; None when it was not asked to send."""
    names = {"started": "sending", "stopped": "sent", "before": "before", "after": "after"}
    found = {name: variables.get(f"{prefix}{variable}") for name, variable in names.items()}
    # One that was skipped has neither: `msg` is the reason why it does not send.
    return found if {"msg", "now"} & set(found["started"] or {}) else None


def _host(results: dict) -> dict:
    stopped = results["stopped"] or {}
    clock = None
    if all(results[name] is not None for name in ("before", "after")) and "now" in stopped:
        clock = [round(stopped["now"] - float(results[end]), 3) for end in ("after", "before")]
    error = "" if stopped.get("figures") else str((stopped or results["started"]).get("msg", ""))
    return {"figures": stopped.get("figures"), "clock": clock, "error": error}


def traffic_report(hostvars: dict, hosts: list, steps: list | None = None, prefix: str = "heddle_upgrade_") -> dict:
    """Return the report."""
    found = {name: _results(hostvars[name], prefix) for name in hosts if name in hostvars}
    measured = {name: _host(results) for name, results in found.items() if results is not None}
    return _evaluate(measured, steps or []) if measured else {}


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"traffic_report": traffic_report}
