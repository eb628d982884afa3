# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the cluster's state as tables for a terminal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: status_table
short_description: The cluster as tables for a terminal
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Renders the result of M(heddle.ovn.resource_info) as tables of hosts, networks and workloads.
  - A network is ready when its own status is and every host has it as planned.
  - Conditions that are not as they should be follow with reason and message.
  - With O(summary), these come first and are complete, followed only by networks that are not ready and totals.
positional: audits
extends_documentation_fragment:
  - heddle.ovn.cluster
options:
  summary:
    description: Whether to leave out what is as it should be.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show the cluster
  ansible.builtin.debug:
    msg: "{{ cluster | heddle.ovn.status_table(audits) }}"
"""

RETURN = r"""
_value:
  description: The tables as text.
  type: str
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"status_table": deferred("module_utils.operations.status_text", "status_table")}
