#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring a host's workloads to the plan."""

from __future__ import annotations

DOCUMENTATION = r"""
module: workload
short_description: Bring a host's workloads to the plan
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Gives every workload of the host its network namespace, links, addresses and routes, and its ports on the
    integration bridge; removes those of workloads that are not in the plan any more.
  - Namespaces, links and ports without the owner's mark are not touched.
  - It goes on when all logical switch ports are up (ovn-architecture, "Life Cycle of a VIF").
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.plan
options:
  wait_timeout:
    description: How many seconds ports may take to come up; 0 does not wait.
    type: int
    default: 60
requirements:
  - pyroute2
seealso:
  - module: heddle.ovn.topology
"""

EXAMPLES = r"""
- name: Bring the workloads to the plan
  heddle.ovn.workload:
    node: "{{ inventory_hostname }}"
"""

RETURN = r"""
changes:
  description: How many objects were created, updated and deleted, and the first hundred of them.
  returned: success
  type: dict
  sample: {"create": 12, "update": 0, "delete": 0, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.invocation import only_writer
from ansible_collections.heddle.ovn.plugins.module_utils.runner import PLAN_ARGUMENTS, reported, result
from ansible_collections.heddle.ovn.plugins.module_utils.share import apply_workloads


def main():
    """Apply and report."""
    module = AnsibleModule(
        argument_spec={**PLAN_ARGUMENTS, "wait_timeout": {"type": "int", "default": 60}}, supports_check_mode=True
    )
    with reported(module), only_writer(write=not module.check_mode):
        outcome = apply_workloads(module)
    module.exit_json(**result(outcome))


if __name__ == "__main__":
    main()
