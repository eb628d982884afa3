#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep traffic of Layer2 workloads going while something is changed, and see what becomes of it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: traffic
short_description: Keep traffic of Layer2 workloads going while something is changed, and see what becomes of it
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - With O(state=started) a background process sends and answers in the names of some workloads of primary Layer2
    networks, in their network namespaces. When a workload moves, the process of its new host goes on for it.
  - Every 10 milliseconds a UDP packet goes to the next workload and to each host of O(external), every 50 an ICMP echo
    to a join address; one TCP connection of each kind carries a line every 100, and every 100 a new one is made to
    external. Everything is done in both address families.
  - Nothing comes from external by itself, as a network of Heddle has no address there. What comes back from there does.
  - The same workloads are chosen on all hosts, up to four of the two Layer2 networks with the most of them. Virtual
    machines take no part.
  - The process ends by itself after O(lifetime) seconds. When it is killed, what it wrote down last is up to five
    seconds old.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.plan
options:
  state:
    description:
      - V(started) has a process; one that does the same already goes on.
      - V(collected) returns its figures, V(stopped) ends it and returns them.
    type: str
    choices: [started, collected, stopped]
    required: true
  port:
    description: UDP and TCP port that is answered on.
    type: int
    default: 7655
  lifetime:
    description: How many seconds the process lives if nobody stops it.
    type: int
    default: 3600
  external:
    description: Hosts of the provider network that are no nodes, and a list of addresses of each.
    type: dict
    default: {}
requirements:
  - pyroute2, except on external hosts
seealso:
  - module: heddle.ovn.layer2_upgrade
  - module: heddle.ovn.reachability
"""

EXAMPLES = r"""
- name: Begin to send
  heddle.ovn.traffic:
    node: "{{ inventory_hostname }}"
    state: started

- name: End, and see what became of it
  heddle.ovn.traffic:
    node: "{{ inventory_hostname }}"
    state: stopped
  register: traffic
"""

RETURN = r"""
workloads:
  description: The workloads that take part, by network; none on an external host.
  returned: when O(state=started)
  type: dict
  sample: {"red_red": ["red/red1", "red/red2"]}
figures:
  description:
    - What this host's process saw; none when there was none.
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
      description: Whether the process ended as it should.
      type: bool
    processor_seconds:
      description: What it used.
      type: float
    segments:
      description: >-
        One entry for each flow and time in which its source was here: what was sent and lost, gaps, losses and slow
        answers by time, and for long connections how many there were and how they ended.
      type: list
      elements: dict
    presence:
      description: When which address answered here.
      type: list
      elements: list
    pauses:
      description: By time, how many seconds late the process got its turn.
      type: dict
    problems:
      description: Addresses that could not answer.
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
        },
        supports_check_mode=True,
    )
    with module_runner.reported(module):
        found = traffic(module_runner.node_context(module), module_runner.options(module, Request))
    module.exit_json(**found)


if __name__ == "__main__":
    main()
