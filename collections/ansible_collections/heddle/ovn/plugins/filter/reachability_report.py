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
  host_plans:
    description:
      - Digest of each host's part of the plan that the stored manifests make, as M(heddle.ovn.resource_info) returns
        them, if known. Hosts with another one are a problem.
    type: dict
"""

EXAMPLES = r"""
- name: Evaluate reachability
  ansible.builtin.set_fact:
    evaluated: "{{ hostvars | heddle.ovn.reachability_report(nodes=groups['heddle_nodes']) }}"
"""

RETURN = r"""
_value:
  description:
    - C(passed) is true if everything was tested and as expected. C(failures), C(not_tested) and C(problems) are lines
      of text. C(text) has the tables for a terminal.
    - C(files) are the files C(verify.json), C(verify.txt) and C(plan.json) as O(heddle.ovn.report#module:packed) takes
      them. The plan is that of the hosts (none if no host had one).
    - In C(verify.json), C(networks) has counts by network and family; C(matrix) has one symbol for each target in a row
      for each source, and is empty with more than 2,000 workloads; C(pairs) has every address, with more than 5,000
      only what failed or was not tested; C(north_south) has the north-south flows; C(coverage) has the numbers of
      tested classes, and in C(left_out) lines about what was not chosen.
    - C(again) has the module's option of the same name for hosts with questions that got no answer and should be asked
      alone.
  type: dict
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"reachability_report": deferred("plugin_utils.reachability", "reachability_report")}
