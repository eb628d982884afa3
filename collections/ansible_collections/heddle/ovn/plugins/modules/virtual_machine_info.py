#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Look at a virtual machine from outside and from within."""

from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_machine_info
short_description: Look at a virtual machine from outside and from within
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Says what QEMU does with a VM on this host, and what the guest itself sees of its networks.
  - The guest answers on a console behind a socket that only root of its host may open; nothing listens on a network.
attributes:
  check_mode:
    description: Changes nothing by itself; with O(command), nothing is run in check mode.
    support: full
  diff_mode:
    description: There is nothing to show.
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
    description: A command of the guest's shell to run instead of the usual questions.
    type: str
  inside:
    description: Whether to ask the guest too. One that hangs, or is still starting, does not answer.
    type: bool
    default: true
  timeout:
    description: How many seconds the guest may take to answer.
    type: int
    default: 30
seealso:
  - module: heddle.ovn.virtual_machine
"""

EXAMPLES = r"""
- name: Ask the VM for its addresses, routes and neighbours
  heddle.ovn.virtual_machine_info:
    workload: red/vm1

- name: Let the VM reach its gateway
  heddle.ovn.virtual_machine_info:
    workload: red/vm1
    command: ping -c 1 10.0.0.1
"""

RETURN = r"""
status:
  description: >-
    What QEMU does; C(absent) when there is none, C(silent) when it does not answer, C(inmigrate) when it waits for a
    move to here.
  returned: success
  type: str
  sample: running
inside:
  description: C(addresses), C(routes) and C(neighbours), as lines of the guest's ip(8).
  returned: when it runs on this host and O(inside)
  type: dict
  sample: {"neighbours": ["10.0.0.1 dev eth0 lladdr 0a:58:0a:00:00:01 REACHABLE"]}
rc:
  description: Status of the command.
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
    """Ask and report."""
    module = AnsibleModule(argument_spec=INFO_ARGUMENTS, supports_check_mode=True)
    with module_runner.reported(module):
        found = look_at(module.params, write=not module.check_mode)
    module.exit_json(**found)


if __name__ == "__main__":
    main()
