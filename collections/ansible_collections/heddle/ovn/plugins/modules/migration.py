#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Record the beginning and the end of a virtual machine's migration."""

from __future__ import annotations

DOCUMENTATION = r"""
module: migration
short_description: Record the beginning and the end of a virtual machine's migration
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Stores in the state database where a virtual machine runs and where it migrates to. Later runs with the same
    manifests do not change that; a manifest that names another node than before overrides it.
  - Returns the plan that every host has to apply next. With O(state=finished), addresses of load balancers move with
    their last endpoint of a host, where the Service has C(externalTrafficPolicy) Local.
  - Runs on the state host. The migration itself is performed by M(heddle.ovn.virtual_machine).
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.state_database
options:
  workload:
    description: The virtual machine, as NAMESPACE/NAME.
    type: str
    required: true
  node:
    description:
      - With O(state=started), the node to move it to. The node that it runs on reverts a move in progress.
      - With O(state=finished), the node that it was found running on.
    type: str
    required: true
  state:
    description: The event to record.
    type: str
    choices: [started, finished]
    required: true
  left_out:
    description:
      - Hosts of the inventory that take no part in the run, such as those that C(--limit) leaves out. With
        O(state=started), the migration is refused when one of them has a network of the workload, since every such host
        has to apply the plan, or is needed for the move of an address that an earlier run has not finished.
      - With O(state=finished), an address that could not move without one of them stays.
    type: list
    elements: str
    default: []
    version_added: 0.5.0
seealso:
  - module: heddle.ovn.virtual_machine
  - module: heddle.ovn.zone
"""

EXAMPLES = r"""
- name: Record the start of the migration
  heddle.ovn.migration:
    workload: red/vm1
    node: node2
    state: started
  register: move
"""

RETURN = r"""
move:
  description: C(workload), C(from), C(to), and C(pending), which is false when there is nothing to do.
  returned: with O(state=started)
  type: dict
  sample: {"workload": "red/vm1", "from": "node1", "to": "node2", "pending": true}
node:
  description: The O(node) of the call.
  returned: success
  type: str
  sample: node2
moved_addresses:
  description:
    - As RV(heddle.ovn.resource#module:moved_addresses), but for what hosts report.
    - With O(state=started), addresses that an earlier run has moved in the state and was cut off before it recorded
      that hosts have them.
  returned: success
  type: dict
  version_added: 0.5.0
  sample: {"198.18.2.200": node1}
document:
  description: The plan for the M(heddle.ovn.zone) module on every host.
  returned: success
  type: str
  sample: eJyLjgUAARUAuQ==
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.state_connection import state_database
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.operations.admission_service import state_changes
from ansible_collections.heddle.ovn.plugins.module_utils.operations.migration import (
    STATE_ARGUMENTS,
    record_move,
)


def main():
    """Record and report."""
    module = AnsibleModule(argument_spec=STATE_ARGUMENTS, supports_check_mode=True)
    write = not module.check_mode
    with module_runner.reported(module), state_database(module, write=write) as client:
        before, after, result = record_move(module.params, client, write=write)
    outcome = Outcome(state_changes(before, after))
    module.exit_json(changed=outcome.changed, diff=outcome.diff(), **result)


if __name__ == "__main__":
    main()
