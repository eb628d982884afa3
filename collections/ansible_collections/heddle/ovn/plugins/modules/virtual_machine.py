#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Move a running virtual machine to the QEMU of another host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_machine
short_description: Move a running virtual machine to the QEMU of another host
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - On the target host, O(state=receiving) makes the waiting QEMU listen, on one address and only for
    clients with a key that is made for this migration (TLS with a pre-shared key).
  - On the source host, O(state=sent) migrates it there and waits until the other end
    runs it. On failure, it continues to run on the source.
  - There too, O(state=completed) ends any migration in progress, so that the VM's location can be determined.
  - Both ends must have the VM's ports already, which M(heddle.ovn.migration) and M(heddle.ovn.zone) create;
    C(heddle.ovn.migrate_workload) does all of it in the right order.
attributes:
  check_mode:
    description: Whether the operation can be run in check mode.
    details: Reports a change and does nothing; what would change is known only when the VM has moved.
    support: partial
  diff_mode:
    description: The change is the VM's host, which M(heddle.ovn.migration) shows.
    support: none
  idempotent:
    description: A VM that listens or has been moved is not changed; its figures are returned again.
    support: partial
options:
  workload:
    description: The virtual machine, as NAMESPACE/NAME.
    type: str
    required: true
  state:
    description: The operation on this end of the migration.
    type: str
    choices: [receiving, sent, completed]
    required: true
  address:
    description: >-
      Address of the receiving host, reachable from the other host; for O(state=receiving) and
      O(state=sent).
    type: str
  port:
    description: Port of the receiving end; for O(state=sent).
    type: int
  key:
    description: The key that the receiving end returned; for O(state=sent).
    type: str
  downtime_limit:
    description: Maximum time in milliseconds that QEMU may stop the VM.
    type: int
    default: 150
  timeout:
    description: Seconds after which the migration is cancelled.
    type: int
    default: 300
seealso:
  - module: heddle.ovn.migration
  - module: heddle.ovn.virtual_machine_info
"""

EXAMPLES = r"""
- name: Wait for the VM
  heddle.ovn.virtual_machine:
    workload: red/vm1
    state: receiving
    address: 198.18.1.2
  register: receiver
  no_log: true

- name: Move the VM
  heddle.ovn.virtual_machine:
    workload: red/vm1
    state: sent
    address: 198.18.1.2
    port: "{{ receiver.port }}"
    key: "{{ receiver.key }}"
"""

RETURN = r"""
port:
  description: Port that QEMU listens on.
  returned: with O(state=receiving)
  type: int
  sample: 41537
key:
  description: Pre-shared key of the migration.
  returned: with O(state=receiving)
  type: str
  sample: 8f1c...
downtime_ms:
  description: Downtime of the VM in milliseconds, until it ran on the target.
  returned: with O(state=sent)
  type: int
  sample: 34
total_ms:
  description: Duration of the migration in milliseconds.
  returned: with O(state=sent)
  type: int
  sample: 1840
transferred_bytes:
  description: Bytes of memory and state that were sent.
  returned: with O(state=sent)
  type: int
  sample: 41943040
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.operations.migration import HOST_ARGUMENTS, bring_machine


def main():
    """Move and report."""
    module = AnsibleModule(
        argument_spec=HOST_ARGUMENTS,
        required_if=[("state", "receiving", ("address",)), ("state", "sent", ("address", "port", "key"))],
        supports_check_mode=True,
    )
    with module_runner.reported(module):
        result = bring_machine(module.params, write=not module.check_mode)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
