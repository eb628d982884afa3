#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Return the state of a virtual machine and of its guest."""

from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_machine_info
short_description: Return the state of a virtual machine and of its guest
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Returns QEMU's state of a VM on this host, and the guest's own addresses, routes and neighbours.
  - The guest answers on a console behind a socket that only root of its host may open; nothing listens on a network.
attributes:
  check_mode:
    description: Makes no changes; with O(command), nothing is run in check mode.
    support: full
  diff_mode:
    description: There are no changes.
    support: none
  idempotent:
    description: As far as O(command) is.
    support: full
options:
  workload:
    description: The virtual machine, as NAMESPACE/NAME.
    type: str
    required: true
  command:
    description: A command of the guest's shell to run instead of the default queries.
    type: str
  guest:
    description: Whether to query the guest too. One that hangs, or is still booting, does not answer.
    type: bool
    default: true
  timeout:
    description: Seconds that the guest may take to answer.
    type: int
    default: 30
seealso:
  - module: heddle.ovn.virtual_machine
"""

EXAMPLES = r"""
- name: Read the VM's addresses, routes and neighbours
  heddle.ovn.virtual_machine_info:
    workload: red/vm1

- name: Ping the gateway from the VM
  heddle.ovn.virtual_machine_info:
    workload: red/vm1
    command: ping -c 1 10.0.0.1
"""

RETURN = r"""
status:
  description: >-
    State of the VM in QEMU; C(absent) without QEMU, C(silent) when it does not answer, C(inmigrate) when it waits for
    a migration to this host.
  returned: success
  type: str
  sample: running
guest:
  description: C(addresses), C(routes) and C(neighbours), as lines of the guest's ip(8).
  returned: when it runs on this host and O(guest)
  type: dict
  sample: {"neighbours": ["10.0.0.1 dev eth0 lladdr 0a:58:0a:00:00:01 REACHABLE"]}
rc:
  description: Exit status of the command.
  returned: with O(command)
  type: int
  sample: 0
stdout:
  description: Output of the command.
  returned: with O(command)
  type: str
  sample: 1 packets transmitted, 1 packets received, 0% packet loss
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.operations.console import INFO_ARGUMENTS, look_at


def main():
    """Query and report."""
    module = AnsibleModule(argument_spec=INFO_ARGUMENTS, supports_check_mode=True)
    with module_runner.reported(module):
        found = look_at(module.params, write=not module.check_mode)
    module.exit_json(**found)


if __name__ == "__main__":
    main()
