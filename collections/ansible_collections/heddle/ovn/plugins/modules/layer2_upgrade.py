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
  - Runs on the state host. C(heddle.ovn.upgrade_layer2) performs the steps in order.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.state_database
options:
  step:
    description:
      - V(drain) moves the Layer2 workloads of O(nodes) to other nodes, preferably to ones that have O(topology)
        already.
      - V(change) sets O(topology) on O(nodes).
      - V(return) moves Layer2 workloads back to the nodes in their manifests, whatever moved them.
      - V(clean_up) removes the old topology; a rollback is then impossible.
      - M(heddle.ovn.layer2_upgrade_info) reports what is left to do, and what blocks it.
    type: str
    choices: [drain, change, return, clean_up]
    required: true
  nodes:
    description: The nodes of V(drain) and V(change).
    type: list
    elements: str
    default: []
  topology:
    description: The topology that the nodes are to have; V(gateway-router) is the rollback.
    type: str
    choices: [transit-router, gateway-router]
    default: transit-router
seealso:
  - module: heddle.ovn.layer2_upgrade_info
  - module: heddle.ovn.zone
"""

EXAMPLES = r"""
- name: Move the workloads away from a node
  heddle.ovn.layer2_upgrade:
    step: drain
    nodes: [node1]
  register: drained
"""

RETURN = r"""
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
            "step": {"type": "str", "choices": list(STEPS), "required": True},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "topology": {"type": "str", "choices": list(TOPOLOGIES), "default": "transit-router"},
            **STATE_DATABASE,
        },
        supports_check_mode=True,
    )
    write = not module.check_mode
    with module_runner.reported(module), state_database(module, write=write) as client:
        result = run_step(client, module.params, write=write)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
