#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Send packets between workloads, into and out of networks, and see who answers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: reachability
short_description: Send packets between workloads, into and out of networks, and see who answers
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - With O(state=responding) a background process answers UDP in the name of each workload of the host, in the
    workload's network namespace and on its own addresses only, and in the host's own name on its address of the
    provider network. It ends by itself after O(lifetime) seconds.
  - With O(state=probed) each workload of the host asks the addresses of other workloads of the plan, hosts outside, its
    own host and the next one, and the shared services; the host asks its own workloads and those of the next node. An
    answer carries the name of its giver, so that networks with equal subnets can be told apart, and the address that
    the question seemed to come from. What must reach is asked with packets of the network's MTU as well.
  - On a host of O(outside), which needs nothing of Heddle, O(state=probed) sends frames with workloads' addresses to
    their nodes.
  - With O(state=stopped) the process ends, and whose packets came in is returned. A packet that arrived where it must
    not is a leak even if the answer got lost.
  - All hosts should be responding before the first is probed. The P(heddle.ovn.reachability_report#filter) filter puts
    the results of all hosts together.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.plan
options:
  state:
    description: What to do.
    type: str
    choices: [responding, probed, stopped]
    required: true
  port:
    description: UDP port of the responders.
    type: int
    default: 7654
  lifetime:
    description: How many seconds a responder lives if nobody stops it.
    type: int
    default: 600
  timeout:
    description:
      - For how many seconds nobody answers before those are given up who must.
      - Hosts are asked as fast as they answer. It takes about two seconds when all who must answer do so at once.
    type: int
    default: 10
  outside:
    description:
      - Hosts of the provider network that are no nodes, and a list of addresses of each.
      - Without them nothing is asked outside.
    type: dict
    default: {}
  rate:
    description:
      - How many questions a second to ask at most.
      - Each is a new flow. While a small host's switch decides on many of those, it drops packets of others.
    type: int
    default: 800
  targets:
    description:
      - How many others each workload asks of each of its networks, and of all.
      - All of them where this is not given and the plan has at most 100 workloads, else 10.
    type: int
requirements:
  - pyroute2, except on hosts outside
seealso:
  - module: heddle.ovn.audit
"""

EXAMPLES = r"""
- name: Answer in the name of all workloads
  heddle.ovn.reachability:
    node: "{{ inventory_hostname }}"
    state: responding

- name: Ask every other workload
  heddle.ovn.reachability:
    node: "{{ inventory_hostname }}"
    state: probed
  register: probed

- name: Stop answering
  heddle.ovn.reachability:
    node: "{{ inventory_hostname }}"
    state: stopped
"""

RETURN = r"""
seen:
  description:
    - One entry for each address that a local source asked.
    - C(answered_by) is the workload or host that answered and C(answered_on) its network; both are none when
      nobody did. C(asker) is the source address that it saw.
    - C(large) tells whether a large packet got its answer too, C(stranger) whether an answer got through of somebody
      who was not asked.
  returned: when O(state=probed)
  type: list
  elements: dict
  sample:
    - source: red/red1
      target: red/red2
      network: red_red
      family: 4
      address: 10.128.1.4
      answered_by: red/red2
      answered_on: red_red
      milliseconds: 1.42
      asker: 10.128.1.3
      stranger: false
      large: true
heard:
  description: Whose packets came in, as source, target, network and address.
  returned: when O(state=stopped)
  type: list
  elements: list
  sample: [["red/red1", "red/red2", "red_red", "10.128.1.4"]]
problems:
  description: One line for each workload or address that could not take part.
  returned: when O(state=responding) or O(state=probed)
  type: list
  elements: str
  sample: ["red/red1: there is no network namespace red_red1"]
digest:
  description: Fingerprint of the plan in use.
  returned: when O(state=probed)
  type: str
  sample: 3b0c44298fc1c149
document:
  description: The plan in use, in one word.
  returned: when O(state=responding) or O(state=probed), except on hosts outside
  type: str
  sample: eJyLjgUAARUAuQ==
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils import runner
from ansible_collections.heddle.ovn.plugins.module_utils.verify.reach import reach


def main():
    """Answer, ask or stop."""
    module = AnsibleModule(
        argument_spec={
            **runner.PLAN_ARGUMENTS,
            "state": {"type": "str", "choices": ["responding", "probed", "stopped"], "required": True},
            "port": {"type": "int", "default": 7654},
            "lifetime": {"type": "int", "default": 600},
            "timeout": {"type": "int", "default": 10},
            "outside": {"type": "dict", "default": {}},
            "rate": {"type": "int", "default": 800},
            "targets": {"type": "int"},
        },
        supports_check_mode=True,
    )
    with runner.reported(module):
        found = reach(module)
    module.exit_json(**found)


if __name__ == "__main__":
    main()
