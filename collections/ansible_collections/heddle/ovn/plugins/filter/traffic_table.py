# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders traffic losses during a change as tables for a terminal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: traffic_table
short_description: Traffic losses during a change as tables for a terminal
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description: Sums by kind of flow, protocol and family, then losses from each step to the next.
options:
  _input:
    description: Result of the P(heddle.ovn.traffic_report#filter) filter.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the traffic losses
  ansible.builtin.debug:
    msg: "{{ evaluated | heddle.ovn.traffic_table }}"
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
        return {"traffic_table": deferred("module_utils.traffic.loss_table", "traffic_table")}
