#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Send traffic of Layer2 workloads during a change, and measure losses."""

from __future__ import annotations

DOCUMENTATION = r"""
module: traffic
short_description: Send traffic of Layer2 workloads during a change, and measure losses
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - With O(state=started) a background process sends and answers for some workloads of primary Layer2
    networks, in their network namespaces. When a workload moves, the process of its new host continues.
  - Every 10 milliseconds a UDP packet goes to the next workload and to each host of O(external), every 50 an ICMP echo
    to a join address; one TCP connection of each kind carries a line every 100, and a new one to external hosts and to
    a Service of the network is made every 100. All of it is done in both address families.
  - External hosts reply. With the plan as O(document) they open connections, every 200 milliseconds each, to the node
    ports of all nodes and to the load balancer of the first Service of these networks that has a TCP port, the external
    traffic policy V(Cluster) and no source ranges.
  - The same workloads are chosen on all hosts, up to four of the two Layer2 networks with the most of them. Virtual
    machines are not included.
  - The process ends by itself after O(lifetime) seconds. If it is killed, its last written figures are up to five
    seconds old.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.plan
options:
  state:
    description:
      - V(started) runs a process; one with the same task continues.
      - V(collected) returns its figures, V(stopped) ends it and returns them.
    type: str
    choices: [started, collected, stopped]
    required: true
  port:
    description: UDP and TCP port of the responders.
    type: int
    default: 7655
  lifetime:
    description: Seconds after which the process ends if it is not stopped.
    type: int
    default: 3600
  external:
    description: External hosts on the provider network, with a list of addresses of each.
    type: dict
    default: {}
  interval:
    description:
      - Milliseconds from one packet of a flow to the next one, at least. Flows that send less often stay as they are.
      - A larger value takes less processor time of the hosts, and measures gaps less exactly.
    type: int
    default: 10
    version_added: 0.5.0
requirements:
  - pyroute2, except on external hosts
seealso:
  - module: heddle.ovn.layer2_upgrade
  - module: heddle.ovn.reachability
"""

EXAMPLES = r"""
- name: Start sending
  heddle.ovn.traffic:
    node: "{{ inventory_hostname }}"
    state: started

- name: Stop sending and return the losses
  heddle.ovn.traffic:
    node: "{{ inventory_hostname }}"
    state: stopped
  register: traffic
"""

RETURN = r"""
workloads:
  description: The chosen workloads, by network; none on an external host.
  returned: when O(state=started)
  type: dict
  sample: {"red_red": ["red/red1", "red/red2"]}
figures:
  description:
    - Figures of this host's process; none without a process.
    - Times are seconds since the epoch by this host's clock, losses are counted by tenths of a second.
  returned: when O(state=collected) or O(state=stopped)
  type: dict
  contains:
    began:
      description: When the process was started.
      type: float
    time:
      description: When the figures were written.
      type: float
    complete:
      description: Whether the process ended normally.
      type: bool
    processor_seconds:
      description: Processor time that it used.
      type: float
    segments:
      description: >-
        One entry for each flow and time in which its source was here: what was sent and lost, gaps, losses and slow
        answers by time, and for long connections how many there were and how they ended.
      type: list
      elements: dict
    presence:
      description: Times at which each address answered here.
      type: list
      elements: list
    pauses:
      description: By time, by how many seconds the process was scheduled late.
      type: dict
    problems:
      description: Addresses that could not be opened.
      type: list
      elements: str
now:
  description: The host's clock, to compare it with others.
  returned: success
  type: float
  sample: 1754049600.25
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.traffic.control import Request, traffic


def main():
    """Start, collect or stop."""
    module = AnsibleModule(
        argument_spec={
            **module_runner.PLAN_ARGUMENTS,
            "state": {"type": "str", "choices": ["started", "collected", "stopped"], "required": True},
            "port": {"type": "int", "default": 7655},
            "lifetime": {"type": "int", "default": 3600},
            "external": {"type": "dict", "default": {}},
            "interval": {"type": "int", "default": 10},
        },
        supports_check_mode=True,
    )
    with module_runner.reported(module):
        found = traffic(module_runner.node_context(module), module_runner.options(module, Request))
    module.exit_json(**found)


if __name__ == "__main__":
    main()
