# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders an audit as tables for a terminal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: audit_table
short_description: An audit as tables for a terminal
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Hosts, drift by cause, foreign objects, notes and problems.
  - Drift, foreign objects and notes have at most 20 lines each for each host; the report itself has all of them.
options:
  _input:
    description: The report of P(heddle.ovn.audit_report#filter).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what differs
  ansible.builtin.debug:
    msg: "{{ report | heddle.ovn.audit_table }}"
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
        return {"audit_table": deferred("module_utils.verify.audit.tables", "audit_table")}
