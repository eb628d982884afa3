# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Merges the plans of hosts into one."""

from __future__ import annotations

DOCUMENTATION = r"""
name: merged_plan
short_description: Merge the plans of hosts into one
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - A host has its part of the plan alone. What workloads of all hosts may reach is in all parts together.
  - Networks that are on none of these hosts are not in the result.
options:
  _input:
    description: What M(heddle.ovn.reachability) returned as C(document) on each host.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Merge the plans of all hosts
  ansible.builtin.set_fact:
    plan: "{{ [hostvars.node1.responding.document, hostvars.node2.responding.document] | heddle.ovn.merged_plan }}"
"""

RETURN = r"""
_value:
  description: The plan, for the option O(heddle.ovn.reachability#module:document); empty without any.
  type: str
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"merged_plan": deferred("plugin_utils.reachability", "merged_plan")}
