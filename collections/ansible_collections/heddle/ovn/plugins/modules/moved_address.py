#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Record that hosts have addresses that moved to them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: moved_address
short_description: Record that hosts have addresses that moved to them
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - When an address of an EgressIP or a load balancer moves, the state database keeps which host had it, until hosts are
    known to have applied the plan. A run that is cut off before leaves that in the state, so the next one takes all
    steps of the move, and one with C(--limit) is refused that leaves out a host which the move needs.
  - Stores that hosts have applied the plan. M(heddle.ovn.readiness) does so as well, so M(heddle.ovn.resource) needs no
    other module.
  - Nothing is stored when another run has changed the plan in the meantime.
  - Runs on the state host, after M(heddle.ovn.zone) ran on all hosts.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.state_database
options:
  document:
    description: The plan that the hosts have applied, as RV(heddle.ovn.resource#module:plan).
    type: str
    required: true
  hosts:
    description: The hosts that have applied it.
    type: list
    elements: str
    required: true
seealso:
  - module: heddle.ovn.kept_address
  - module: heddle.ovn.migration
  - module: heddle.ovn.zone
"""

EXAMPLES = r"""
- name: Record that the addresses have moved
  heddle.ovn.moved_address:
    document: "{{ move.document }}"
    hosts: [node1, node2]
"""

RETURN = r"""
overtaken:
  description: Whether the stored state makes another plan than that of O(document), so that nothing was stored.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import STATE_DATABASE
from ansible_collections.heddle.ovn.plugins.module_utils.agent.state_connection import state_database
from ansible_collections.heddle.ovn.plugins.module_utils.operations.ended_moves import record_moved


def main():
    """Record and report."""
    arguments = {
        "document": {"type": "str", "required": True},
        "hosts": {"type": "list", "elements": "str", "required": True},
        **STATE_DATABASE,
    }
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    write = not module.check_mode
    with module_runner.reported(module), state_database(module, write=write) as client:
        result = record_moved(client, module.params["document"], module.params["hosts"], write=write)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
