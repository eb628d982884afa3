#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Record that addresses stay on hosts that have not given them up."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kept_address
short_description: Record that addresses stay on hosts that have not given them up
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - When addresses of EgressIPs or load balancers move, their former hosts give them up before other hosts take them. An
    address that its former host has not given up would be on two hosts.
  - Stores in the state database that the addresses of such hosts stay there, and returns the plan for it. All other
    addresses move. The next M(heddle.ovn.resource) moves these once more.
  - Runs on the state host, between the steps V(release) and V(claim) of O(heddle.ovn.zone#module:handover).
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.state_database
options:
  moved:
    description: The addresses that move, as RV(heddle.ovn.resource#module:moved_addresses), each with its former host.
    type: dict
    required: true
  hosts:
    description: Former hosts that have not given up their addresses, as P(heddle.ovn.unreleased_hosts#filter) finds
      them, each with the reason.
    type: dict
    required: true
seealso:
  - module: heddle.ovn.resource
  - module: heddle.ovn.zone
  - plugin: heddle.ovn.unreleased_hosts
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Keep an address that a host could not give up
  heddle.ovn.kept_address:
    moved: {"198.18.2.100": node1, "198.18.2.101": node2}
    hosts: {node1: no answer}
  register: kept
"""

RETURN = r"""
plan:
  description: The plan of all hosts, as RV(heddle.ovn.resource#module:plan), in which these addresses stay.
  returned: success
  type: str
  sample: eJyLjgUAARUAuQ==
digest:
  description: RV(heddle.ovn.resource#module:digest) of that plan.
  returned: success
  type: str
  sample: 3b0c44298fc1c149
moved_addresses:
  description: Those of O(moved) that other hosts get by that plan.
  returned: success
  type: dict
  sample: {"198.18.2.101": node2}
waiting:
  description: A line for each of O(hosts) with its addresses, the hosts that get them later, and the reason.
  returned: success
  type: list
  elements: str
  sample:
    - "node1 has not given up 198.18.2.100 for node3, and keeps it until a run of heddle.ovn.networks: no answer"
revision:
  description: Revision of the state; grows with every change.
  returned: success
  type: int
  sample: 8
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import STATE_DATABASE
from ansible_collections.heddle.ovn.plugins.module_utils.agent.state_connection import state_database
from ansible_collections.heddle.ovn.plugins.module_utils.operations.kept_addresses import keep_addresses


def main():
    """Record and report."""
    arguments = {
        "moved": {"type": "dict", "required": True},
        "hosts": {"type": "dict", "required": True},
        **STATE_DATABASE,
    }
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    write = not module.check_mode
    with module_runner.reported(module), state_database(module, write=write) as client:
        result = keep_addresses(client, module.params["moved"], module.params["hosts"], write=write)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
