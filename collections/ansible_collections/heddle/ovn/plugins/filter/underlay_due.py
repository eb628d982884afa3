# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a run has to measure the paths between hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: underlay_due
short_description: Whether a run has to measure the paths between hosts
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - With C(heddle_encapsulation_type) V(auto) it has to when a host that answers has no plan yet. With
    C(heddle_probe_underlay) it has to in any case.
options:
  _input:
    description: The variables of all hosts.
    type: dict
    required: true
  nodes:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Measure the paths between hosts
  ansible.builtin.include_tasks: tasks/probe_underlay.yml
  when: hostvars | heddle.ovn.underlay_due(groups['heddle_nodes'])
"""

RETURN = r"""
_value:
  description: Whether the paths are to be measured.
  type: bool
"""


def underlay_due(hostvars: dict, nodes: list) -> bool:
    """Return whether the paths are to be measured, by the result of `chassis` or `chassis_info` of each node."""
    for name in nodes:
        variables = hostvars[name]
        if str(variables.get("heddle_probe_underlay", False)).lower() in ("true", "yes", "on", "1"):
            return True
        facts = variables.get("chassis_facts") or variables.get("chassis_described") or {}
        wanted = variables.get("heddle_encapsulation_type") == "auto"
        if wanted and facts.get("datapath") not in (None, "none") and not facts.get("planned", False):
            return True
    return False


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"underlay_due": underlay_due}
