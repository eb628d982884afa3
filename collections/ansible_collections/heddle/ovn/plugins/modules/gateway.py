#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring a host's gateways to the plan."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway
short_description: Bring a host's gateways to the plan
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Brings what lies between OVN's gateway routers and the provider network to the plan, for all networks of the host
    together. These are the flows of the provider bridge, management ports, VRFs, routes, rules and the nftables table.
  - Flows, routes, rules and tables without Heddle's mark are not touched.
  - Flows name the patch ports that ovn-controller makes; those are waited for.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.plan
requirements:
  - pyroute2
seealso:
  - module: heddle.ovn.topology
"""

EXAMPLES = r"""
- name: Bring the gateways to the plan
  heddle.ovn.gateway:
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
from ansible_collections.heddle.ovn.plugins.module_utils.share_gateway import apply_gateway


def main():
    """Apply and report."""
    module = AnsibleModule(argument_spec=PLAN_ARGUMENTS, supports_check_mode=True)
    with reported(module), only_writer(write=not module.check_mode):
        outcome = apply_gateway(module)
    module.exit_json(**result(outcome))


if __name__ == "__main__":
    main()
