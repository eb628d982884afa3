#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring a zone's logical topology to the plan."""

from __future__ import annotations

DOCUMENTATION = r"""
module: topology
short_description: Bring a zone's logical topology to the plan
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Renders the host's share of the plan into Northbound rows and the other hosts into remote chassis of the Southbound
    database, and changes what differs, in guarded transactions of a few networks each.
  - Rows that carry the owner's mark and are not in the plan any more are deleted. Other rows are not touched.
  - After a change it waits until ovn-northd and ovn-controller have carried it out (C(nb_cfg), C(sb_cfg), C(hv_cfg)).
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.plan
options:
  wait_timeout:
    description: How many seconds the host may take to carry the change out; 0 does not wait.
    type: int
    default: 120
seealso:
  - module: heddle.ovn.plan
  - module: heddle.ovn.workload
"""

EXAMPLES = r"""
- name: Bring the logical topology to the plan
  heddle.ovn.topology:
    node: "{{ inventory_hostname }}"
"""

RETURN = r"""
changes:
  description: How many rows were created, updated and deleted, and the first hundred of them.
  returned: success
  type: dict
  sample: {"create": 192, "update": 0, "delete": 0, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.invocation import only_writer
from ansible_collections.heddle.ovn.plugins.module_utils.runner import PLAN_ARGUMENTS, reported, result
from ansible_collections.heddle.ovn.plugins.module_utils.share_topology import apply_topology


def main():
    """Apply and report."""
    module = AnsibleModule(
        argument_spec={**PLAN_ARGUMENTS, "wait_timeout": {"type": "int", "default": 120}}, supports_check_mode=True
    )
    with reported(module), only_writer(write=not module.check_mode):
        outcome = apply_topology(module)
    module.exit_json(**result(outcome, diff=module._diff))


if __name__ == "__main__":
    main()
