#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Announce its current routers to a virtual machine that was migrated."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_announcement
short_description: Announce its current routers to a migrated virtual machine
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - While Layer2 networks have gateway routers on their switches, the default gateway has another MAC on every node, and
    a migrated VM does not resolve it again.
  - On the VM's new node, this sends it a gratuitous ARP for the gateway's address, a router advertisement of the
    node's router, and one with a lifetime of zero for each former router.
  - Only the VM itself receives them. Nothing is sent in networks whose routers are the same on all nodes, as in those
    with a transit router after the old topology was removed.
extends_documentation_fragment:
  - heddle.ovn.plan
attributes:
  check_mode:
    description: Whether the operation can be run in check mode.
    support: full
  diff_mode:
    description: The change is in the VM's neighbour cache and routes.
    support: none
  idempotent:
    description: The announcements are sent every time; repeating them has no further effect.
    support: none
options:
  workload:
    description: The virtual machine, as NAMESPACE/NAME.
    type: str
    required: true
seealso:
  - module: heddle.ovn.virtual_machine
"""

EXAMPLES = r"""
- name: Announce routers (RA/GARP)
  heddle.ovn.gateway_announcement:
    node: "{{ inventory_hostname }}"
    workload: red/vm1
"""

RETURN = r"""
announced:
  description:
    - The announcements sent to the VM; empty where none is needed.
    - C(lifetime) is in seconds, and null for IPv4.
  returned: success
  type: list
  elements: dict
  sample: [{"router": "10.0.0.1", "mac": "0a:58:64:41:00:03", "lifetime": null}]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.operations.migration import announce


def main():
    """Send and report."""
    module = AnsibleModule(
        argument_spec={**module_runner.PLAN_ARGUMENTS, "workload": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    with module_runner.reported(module):
        result = announce(module_runner.node_context(module), module.params["workload"])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
