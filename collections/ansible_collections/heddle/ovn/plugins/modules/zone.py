#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring a host, which is a zone of OVN, to the plan."""

from __future__ import annotations

DOCUMENTATION = r"""
module: zone
short_description: Bring a host to the plan
version_added: 0.3.0
author:
  - Heddle maintainers (@heddle)
description:
  - Every host is a zone of OVN with databases of its own. The plan is one document, the same for all of them.
  - Keeps the plan on the host, where C(heddle-host) finds it. A host that has a later plan of the same deployment
    refuses an earlier one.
  - Renders the host's desired state into Northbound rows and the other hosts into remote chassis of the Southbound
    database, and waits until ovn-northd and ovn-controller have carried it out (C(nb_cfg), C(sb_cfg), C(hv_cfg)).
  - Then the gateways, which are management ports, VRFs, routes, rules, flows of the provider's bridge and an nftables
    table, and then the workloads of this host with their interfaces.
  - Only what differs is changed. What carries the owner's mark and is not in the plan any more is deleted; other things
    are not touched.
  - A network whose rows, flows or links the host refuses keeps no other from it. The module then fails in the end and
    names it with the reason.
  - Playbooks and C(heddle-host) wait for each other.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  node:
    description: Name of the host in the plan.
    type: str
    required: true
  document:
    description: The plan, as M(heddle.ovn.resource) returned it.
    type: str
    required: true
  plan:
    description: Where the plan is kept.
    type: path
    default: /var/lib/heddle/plan.json
  parts:
    description: Which parts to bring, for who looks for the one that takes long or fails.
    type: list
    elements: str
    choices: [topology, gateway, workloads]
    default: [topology, gateway, workloads]
  wait_timeout:
    description: How many seconds OVN may take to carry a change out; 0 does not wait.
    type: int
    default: 120
seealso:
  - module: heddle.ovn.resource
  - module: heddle.ovn.audit
"""

EXAMPLES = r"""
- name: Bring this host to the plan
  heddle.ovn.zone:
    node: "{{ inventory_hostname }}"
    document: "{{ admitted.plan }}"
"""

RETURN = r"""
refused:
  description: Networks that this host refused, wholly or in part, and why; all others are as planned.
  returned: failure, when the host refused networks
  type: dict
  sample: {"red_net": "link red exists and is not Heddle's"}
changes:
  description: How many objects were created, updated and deleted, and the first hundred of them.
  returned: success
  type: dict
  sample: {"create": 192, "update": 0, "delete": 0, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import only_writer
from ansible_collections.heddle.ovn.plugins.module_utils.agent.zone import PARTS, apply_zone


def main():
    """Apply and report."""
    arguments = {
        "node": {"type": "str", "required": True},
        "document": {"type": "str", "required": True},
        "plan": {"type": "path", "default": module_runner.PLAN_FILE},
        "parts": {"type": "list", "elements": "str", "choices": list(PARTS), "default": list(PARTS)},
        "wait_timeout": {"type": "int", "default": 120},
    }
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    with module_runner.reported(module), only_writer(write=not module.check_mode):
        outcome = apply_zone(module_runner.node_context(module), module.params["parts"])
    if outcome.refused:
        module.fail_json(
            msg=f"{module_runner.refusal(outcome)}\nAll other networks are on {module.params['node']} as planned.",
            changed=outcome.changed,
            refused=dict(outcome.refused),
            warnings=list(outcome.notes),
        )
    module.exit_json(**module_runner.result(outcome, diff=module._diff))


if __name__ == "__main__":
    main()
