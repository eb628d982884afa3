#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Record the beginning and the end of a virtual machine's move."""

from __future__ import annotations

DOCUMENTATION = r"""
module: migration
short_description: Record the beginning and the end of a virtual machine's move
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Keeps in the state database where a virtual machine runs and where it is on its way to. Later runs with the same
    manifests leave that as it is; a manifest that names another node than before wins.
  - Returns the plan with which every host is to go on.
  - Runs on the state host. The moving itself is the M(heddle.ovn.virtual_machine) module's.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  workload:
    description: The virtual machine, as NAMESPACE/NAME.
    type: str
    required: true
  node:
    description:
      - With O(state=begun), the node to move it to. The node that it runs on takes back a move that is under way.
      - With O(state=ended), the node that it was found running on.
    type: str
    required: true
  state:
    description: What is to be recorded.
    type: str
    choices: [begun, ended]
    required: true
  socket:
    description: Where the state database listens.
    type: str
    default: unix:/run/heddle-state/heddle.sock
seealso:
  - module: heddle.ovn.virtual_machine
  - module: heddle.ovn.zone
"""

EXAMPLES = r"""
- name: Record that the VM is on its way
  heddle.ovn.migration:
    workload: red/vm1
    node: node2
    state: begun
  register: move
"""

RETURN = r"""
move:
  description: C(workload), C(from), C(to), and C(pending), which is false when there is nothing to do.
  returned: with O(state=begun)
  type: dict
  sample: {"workload": "red/vm1", "from": "node1", "to": "node2", "pending": true}
node:
  description: The node that was named.
  returned: success
  type: str
  sample: node2
document:
  description: The plan, as the M(heddle.ovn.zone) module takes it on every host.
  returned: success
  type: str
  sample: eJyLjgUAARUAuQ==
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.operations.admission_service import state_changes
from ansible_collections.heddle.ovn.plugins.module_utils.operations.migration import (
    STATE_ARGUMENTS,
    record_move,
)


def main():
    """Record and report."""
    module = AnsibleModule(argument_spec=STATE_ARGUMENTS, supports_check_mode=True)
    with module_runner.reported(module), module_runner.connected(module, module.params["socket"]) as client:
        before, after, result = record_move(module.params, client, write=not module.check_mode)
    outcome = Outcome(state_changes(before, after))
    module.exit_json(changed=outcome.changed, diff=outcome.diff(), **result)


if __name__ == "__main__":
    main()
