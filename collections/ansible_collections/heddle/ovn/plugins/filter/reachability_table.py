# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders a reachability report as tables for a terminal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: reachability_table
short_description: A reachability report as tables for a terminal
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description: Counts by network, a matrix of workloads, and what failed or was not tested.
options:
  _input:
    description: The content of C(verify.json), which the playbook P(heddle.ovn.verify) writes.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the reachability
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', 'report/verify.json') | from_json | heddle.ovn.reachability_table }}"
"""

RETURN = r"""
_value:
  description: One line of text each.
  type: list
  elements: str
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"reachability_table": deferred("module_utils.verify.report_tables", "reachability_table")}
