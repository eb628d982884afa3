#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tell a virtual machine that was moved who its routers are now."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_announcement
short_description: Tell a virtual machine that was moved who its routers are now
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - While Layer2 networks have gateway routers on their switches, the default gateway has another MAC on every node, and
    a VM that was moved does not ask again.
  - On the node that it has come to, this sends it a gratuitous ARP for the gateway's address, a router advertisement of
    its router there, and one with a lifetime of zero for each router that is not its own any more.
  - Only the VM itself gets them. Nothing is sent in networks whose routers are the same on all nodes, which those
    with a transit router are, once the old topology was given up.
extends_documentation_fragment:
  - heddle.ovn.plan
attributes:
  check_mode:
    description: Whether the operation can be run in check mode.
    support: full
  diff_mode:
    description: What changes is what the VM remembers.
    support: none
  idempotent:
    description: It is told again every time, which changes nothing the second time.
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
- name: Tell the VM who its routers are
  heddle.ovn.gateway_announcement:
    node: "{{ inventory_hostname }}"
    workload: red/vm1
"""

RETURN = r"""
announced:
  description:
    - What the VM was told; empty where there is nothing to tell.
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
    """Tell and report."""
    module = AnsibleModule(
        argument_spec={**module_runner.PLAN_ARGUMENTS, "workload": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    with module_runner.reported(module):
        result = announce(module)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
