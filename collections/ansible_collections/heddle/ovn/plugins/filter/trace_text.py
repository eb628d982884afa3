# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Joins the output of ovn-trace on several hosts into one text."""

from __future__ import annotations

DOCUMENTATION = r"""
name: trace_text
short_description: Output of ovn-trace on several hosts as one text
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description: A packet begins with a line C(== TITLE), and each of its legs with a line C(-- on NODE).
options:
  _input:
    description: RV(heddle.ovn.host_info#module:traces) by host, as P(heddle.ovn.host_results#filter) returns them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the traces
  ansible.builtin.copy:
    content: "{{ traces | heddle.ovn.trace_text }}"
    dest: report/trace.txt
    mode: "0644"
  vars:
    traces: "{{ hostvars | heddle.ovn.host_results(groups['all'], 'looked', attribute='traces') }}"
"""

RETURN = r"""
_value:
  description: The text; empty when nothing was traced.
  type: str
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"trace_text": deferred("module_utils.verify.packets", "joined_traces")}
