#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Perform one step of the upgrade of Layer2 networks to the transit router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: layer2_upgrade
short_description: Perform one step of the upgrade of Layer2 networks to the transit router
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Changes the Layer2 topology of nodes in the state database. Each step results in a plan, which other modules
    apply to the hosts; until then no host changes.
  - A node changes only while it has no workload of a primary Layer2 network.
  - What is left to do follows from the state alone, so an interrupted run can be completed by the next one.
  - Runs on the state host. C(playbooks/upgrade_layer2.yml) performs the steps in order.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.state_database
options:
  step:
    description:
      - V(surveyed) simulates all steps and reports what would happen and what blocks them.
      - V(drained) moves the Layer2 workloads of O(nodes) to other nodes, preferably to ones that have O(topology)
        already.
      - V(changed) sets O(topology) on O(nodes).
      - V(returned) moves Layer2 workloads back to the nodes in their manifests, whatever moved them.
      - V(cleaned) removes the old topology; a rollback is then impossible.
    type: str
    choices: [surveyed, drained, changed, returned, cleaned]
    default: surveyed
  nodes:
    description: The nodes of this step. For V(surveyed), an empty list means all nodes.
    type: list
    elements: str
    default: []
  topology:
    description: The topology that the nodes are to have; V(gateway-router) is the rollback.
    type: str
    choices: [transit-router, gateway-router]
    default: transit-router
  serial:
    description: Number of nodes that change at a time.
    type: int
    default: 1
seealso:
  - module: heddle.ovn.layer2_upgrade_info
  - module: heddle.ovn.zone
"""

EXAMPLES = r"""
- name: Preview the upgrade
  heddle.ovn.layer2_upgrade:
  register: upgrade

- name: Move the workloads away from a node
  heddle.ovn.layer2_upgrade:
    step: drained
    nodes: [node1]
  register: drained
"""

RETURN = r"""
survey:
  description: What is left to do after this step.
  returned: success
  type: dict
  contains:
    open:
      description: Whether nodes may have either topology.
      type: bool
    goal:
      description: The topology version that the nodes are to have.
      type: str
    versions:
      description: The topology version of each node, V(1.0) or V(2.0).
      type: dict
    last_changed:
      description: The nodes that changed last; the hosts may not have the plan yet.
      type: list
      elements: str
    batches:
      description: The remaining nodes, in the order in which they change.
      type: list
      elements: list
    moves:
      description: Workloads that will change their node.
      type: list
      elements: dict
    blockers:
      description: Blockers, with node, network and workload where it applies, and as a line of text.
      type: list
      elements: dict
    notes:
      description: Notes that block nothing.
      type: list
      elements: str
moved:
  description: Workloads that this step moved.
  returned: success
  type: list
  elements: dict
  sample: [{"workload": "red/red1", "kind": "netns", "network": "red_red", "source": "node1", "target": "node2"}]
differences:
  description: Changes of the state.
  returned: success
  type: list
  elements: str
document:
  description: The plan after this step, compressed and base64-encoded.
  returned: when there are nodes
  type: str
  sample: eJyLjgUAARUAuQ==
revision:
  description: Revision of the state that the plan was built from.
  returned: success
  type: int
  sample: 9
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.state_connection import STATE_DATABASE, state_database
from ansible_collections.heddle.ovn.plugins.module_utils.operations.layer2_upgrade import (
    STEPS,
    TOPOLOGIES,
    run_step,
)


def main():
    """Perform the step and report."""
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": list(STEPS), "default": STEPS[0]},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "topology": {"type": "str", "choices": list(TOPOLOGIES), "default": "transit-router"},
            "serial": {"type": "int", "default": 1},
            **STATE_DATABASE,
        },
        supports_check_mode=True,
    )
    write = not module.check_mode
    with module_runner.reported(module):
        if module.params["serial"] < 1:
            module.fail_json(msg="serial: at least one node changes at a time")
        with state_database(module, write=write) as client:
            result = run_step(client, module.params, write=write)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
