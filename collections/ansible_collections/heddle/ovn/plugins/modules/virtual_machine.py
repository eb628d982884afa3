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
  - On the host that a VM moves to, O(state=receiving) makes its waiting QEMU listen, on one address and only for
    one who knows a key that is made for this move (TLS with a pre-shared key).
  - On the host that it runs on, O(state=sent) moves it there and waits until the other end says that it
    runs it. When that fails, it goes on running where it was.
  - There too, O(state=completed) sees to it that no move is under way, so that it can be seen where the VM runs.
  - Both ends must have the VM's ports already, which M(heddle.ovn.migration) and M(heddle.ovn.zone) see to;
    C(playbooks/migrate_workload.yml) does all of it in the right order.
attributes:
  check_mode:
    description: Whether the operation can be run in check mode.
    details: Reports a change and does nothing; what would change is known only when the VM has moved.
    support: partial
  diff_mode:
    description: What changes is where the VM runs, which M(heddle.ovn.migration) shows.
    support: none
  idempotent:
    description: A VM that listens or has been moved is left as it is; its figures are returned again.
    support: partial
options:
  workload:
    description: The virtual machine, as NAMESPACE/NAME.
    type: str
    required: true
  state:
    description: Which end of the move this host is.
    type: str
    choices: [receiving, sent, completed]
    required: true
  address:
    description: >-
      Address of the receiving host, one of its own that the other host reaches; for O(state=receiving) and
      O(state=sent).
    type: str
  port:
    description: Where the receiving end listens; for O(state=sent).
    type: int
  key:
    description: The key that the receiving end returned; for O(state=sent).
    type: str
  downtime_limit:
    description: For how many milliseconds QEMU may stop the VM.
    type: int
    default: 150
  timeout:
    description: How many seconds the move may take before it is given up.
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
  description: Where QEMU listens.
  returned: with O(state=receiving)
  type: int
  sample: 41537
key:
  description: Who knows it may send a VM.
  returned: with O(state=receiving)
  type: str
  sample: 8f1c...
downtime_ms:
  description: For how long QEMU had stopped the VM, until it ran at the other end.
  returned: with O(state=sent)
  type: int
  sample: 34
total_ms:
  description: How long the move took.
  returned: with O(state=sent)
  type: int
  sample: 1840
transferred_bytes:
  description: How much memory and state was sent.
  returned: with O(state=sent)
  type: int
  sample: 41943040
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.operations.migration import (
    HOST_ARGUMENTS,
    complete,
    receive,
    send,
)


def main():
    """Move and report."""
    module = AnsibleModule(
        argument_spec=HOST_ARGUMENTS,
        required_if=[("state", "receiving", ("address",)), ("state", "sent", ("address", "port", "key"))],
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True)
    with module_runner.reported(module):
        result = {"receiving": receive, "sent": send, "completed": complete}[module.params["state"]](module.params)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
