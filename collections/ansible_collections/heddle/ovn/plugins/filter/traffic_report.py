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
      - By host, a dictionary with the module's results C(started) and C(stopped), and with C(before) and C(after), when
        the control node had not yet asked and had been answered, in seconds since the epoch.
      - A host that did not answer may lack any of these.
    type: dict
    required: true
  steps:
    description: The steps of the change, as dictionaries with C(time), C(step), C(nodes) and C(moved).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Evaluate the traffic
  ansible.builtin.set_fact:
    evaluated: "{{ {'node1': {'stopped': stopped}} | heddle.ovn.traffic_report(steps=[]) }}"
"""

RETURN = r"""
_value:
  description:
    - C(flows) has each flow, C(ways) the sums by kind of flow, protocol and family, C(phases) the losses from each step
      to the next, C(moves) when which workload was moved.
    - C(clocks) has by how many seconds at least and at most each host's clock is ahead of the control node's.
    - C(problems) are lines of text on what is wrong with the measurement itself.
  type: dict
"""

from ansible_collections.heddle.ovn.plugins.module_utils.traffic.losses import evaluate


def _host(results: dict) -> dict:
    stopped = results.get("stopped") or {}
    clock = None
    if all(results.get(name) is not None for name in ("before", "after")) and "now" in stopped:
        clock = [round(stopped["now"] - float(results[end]), 3) for end in ("after", "before")]
    error = "" if stopped.get("figures") else str((stopped or results.get("started") or {}).get("msg", ""))
    return {"figures": stopped.get("figures"), "clock": clock, "error": error}


def traffic_report(hosts: dict, steps: list | None = None) -> dict:
    """Return the report."""
    return evaluate({name: _host(results) for name, results in hosts.items()}, steps or [])


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"traffic_report": traffic_report}
