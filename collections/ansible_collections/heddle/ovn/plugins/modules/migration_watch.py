#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Send echoes to a workload during its migration."""

from __future__ import annotations

DOCUMENTATION = r"""
module: migration_watch
short_description: Send echoes to a workload during its migration
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - One workload of the same primary network, preferably on a host that is not part of the move, sends an ICMP echo
    every 10 milliseconds to each address. Run it on all hosts; only the host of that workload sends.
  - The process ends by itself after O(lifetime) seconds.
extends_documentation_fragment:
  - heddle.ovn.plan
attributes:
  check_mode:
    description: Whether the operation can be run in check mode.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
  idempotent:
    description: A running process with the same task continues.
    support: full
options:
  workload:
    description: The workload that moves, as NAMESPACE/NAME.
    type: str
    required: true
  target:
    description: The host that it moves to; a sender elsewhere is preferred.
    type: str
  state:
    description: V(started) runs the process, V(stopped) ends it and returns its figures.
    type: str
    choices: [started, stopped]
    required: true
  addresses:
    description: Targets of the echoes; empty means the workload's own addresses.
    type: list
    elements: str
    default: []
  lifetime:
    description: Seconds after which the process ends if it is not stopped.
    type: int
    default: 900
requirements:
  - pyroute2
seealso:
  - module: heddle.ovn.migration
  - module: heddle.ovn.traffic
"""

EXAMPLES = r"""
- name: Send echoes to the VM
  heddle.ovn.migration_watch:
    node: "{{ inventory_hostname }}"
    workload: red/vm1
    target: node2
    state: started
"""

RETURN = r"""
peer:
  description: The workload that sends, on any host.
  returned: with O(state=started)
  type: str
  sample: red/web
figures:
  description:
    - By address the numbers of echoes sent and lost, the longest time between the sending of two answered echoes, and
      the slowest answer; nothing on hosts that did not send.
  returned: with O(state=stopped)
  type: dict
  sample: {"10.0.0.5": {"sent": 3021, "lost": 12, "longest_gap_ms": 131, "slowest_ms": 9}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.traffic.watching import Request, watch


def main():
    """Start or stop."""
    module = AnsibleModule(
        argument_spec={
            **module_runner.PLAN_ARGUMENTS,
            "workload": {"type": "str", "required": True},
            "target": {"type": "str"},
            "state": {"type": "str", "choices": ["started", "stopped"], "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "lifetime": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    with module_runner.reported(module):
        found = watch(module_runner.node_context(module), module_runner.options(module, Request))
    module.exit_json(**found)


if __name__ == "__main__":
    main()
