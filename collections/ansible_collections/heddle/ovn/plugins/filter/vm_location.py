# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Determines on which of two nodes a virtual machine runs after its migration ended or failed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: vm_location
short_description: Determine on which of two nodes a virtual machine runs
version_added: 0.3.0
author:
  - Heddle maintainers (@heddle)
description:
  - Decides by the VM's state on both ends of a migration. It never permits starting the VM again while
    one end has not answered, since it may run there.
options:
  _input:
    description: The move, as the M(heddle.ovn.migration) module returned it; C(from) and C(to) are used.
    type: dict
    required: true
  here:
    description:
      - RV(heddle.ovn.virtual_machine_info#module:status) on the node that the VM left; C(nothing) when that node
        did not answer.
    type: str
    required: true
  there:
    description: The status on the node that it moves to.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the VM's node
  ansible.builtin.debug:
    msg: "{{ begun.move | heddle.ovn.vm_location('postmigrate', 'running') }}"
"""

RETURN = r"""
_value:
  description:
    - C(node) is the node where the VM runs, or is to be started anew; empty when that is not known.
    - C(lost) is true if both ends answered and neither runs it, so that it is started again.
  type: dict
  sample: {"node": "node2", "lost": false}
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"vm_location": deferred("module_utils.controllers.workload.move", "vm_location")}
