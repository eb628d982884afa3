#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Report what the upgrade of Layer2 networks would do, and what blocks it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: layer2_upgrade_info
short_description: Report what the upgrade of Layer2 networks would do, and what blocks it
version_added: 0.3.0
author:
  - Heddle maintainers (@heddle)
description:
  - Simulates all steps of M(heddle.ovn.layer2_upgrade) on a copy of the state. Nothing is written.
  - Runs on the state host.
extends_documentation_fragment:
  - heddle.ovn.attributes.info
  - heddle.ovn.state_database
options:
  nodes:
    description: The nodes to change; an empty list means all.
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
  ovn_versions:
    description:
      - What C(ovn-nbctl --version) printed, by node; an empty text for a node that did not answer.
      - Nodes that are not named are not checked.
    type: dict
    default: {}
seealso:
  - module: heddle.ovn.layer2_upgrade
"""

EXAMPLES = r"""
- name: Preview the upgrade
  heddle.ovn.layer2_upgrade_info:
    serial: 2
  register: upgrade

- name: Stop when something blocks it
  ansible.builtin.assert:
    that: not upgrade.blockers
"""

RETURN = r"""
survey:
  description: What is left to do.
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
blockers:
  description: Blockers of the whole upgrade, one per line; OVN releases of O(ovn_versions) come first.
  returned: success
  type: list
  elements: str
  sample: ["node node1: its OVN 24.03 knows no transit routers; 25.03 is the first that does"]
drain:
  description: Preview of draining O(nodes); empty when O(nodes) is.
  returned: success
  type: dict
  contains:
    moves:
      description: Workloads that would be moved.
      type: list
      elements: dict
      sample: [{"workload": "red/red1", "kind": "netns", "network": "red_red", "source": "node1", "target": "node2"}]
    blockers:
      description: Blockers of that, one per line.
      type: list
      elements: str
forwards:
  description: Whether all nodes that changed last got the transit router, as opposed to a rollback.
  returned: success
  type: bool
document:
  description: The plan of the stored state, compressed and base64-encoded.
  returned: when there are nodes
  type: str
  sample: eJyLjgUAARUAuQ==
revision:
  description: Revision of the state.
  returned: success
  type: int
  sample: 9
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.state_connection import STATE_DATABASE, state_database
from ansible_collections.heddle.ovn.plugins.module_utils.operations.layer2_upgrade import TOPOLOGIES, look_ahead


def main():
    """Read and report."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "default": []},
            "topology": {"type": "str", "choices": list(TOPOLOGIES), "default": "transit-router"},
            "serial": {"type": "int", "default": 1},
            "ovn_versions": {"type": "dict", "default": {}},
            **STATE_DATABASE,
        },
        supports_check_mode=True,
    )
    with module_runner.reported(module):
        if module.params["serial"] < 1:
            module.fail_json(msg="serial: at least one node changes at a time")
        with state_database(module, write=False) as client:
            found = look_ahead(client, module.params)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
