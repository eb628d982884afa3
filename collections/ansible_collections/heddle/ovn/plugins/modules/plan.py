#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compute the plan, or keep it on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Compute the plan, or keep it on a host
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - The plan is one document, the same for every host, with everything that hosts need to know.
  - On the state host, O(resources) and O(nodes) say what is wanted, and the plan is computed from that and from what is
    stored. In check mode this is the plan as it would become.
  - On every host, O(document) is the plan, and it is kept in O(path).
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.state
options:
  resources:
    required: false
  nodes:
    required: false
  document:
    description: The plan to keep, as this module returned it.
    type: str
  path:
    description: Where to keep the plan.
    type: path
    default: /var/lib/heddle/plan.json
seealso:
  - module: heddle.ovn.resource
  - module: heddle.ovn.topology
  - module: heddle.ovn.workload
"""

EXAMPLES = r"""
- name: Compute the plan on the state host
  heddle.ovn.plan:
    resources: "{{ manifests.document }}"
    nodes: "{{ nodes }}"
  register: plan

- name: Keep the plan on a host
  heddle.ovn.plan:
    document: "{{ plan.document }}"
"""

RETURN = r"""
document:
  description: The plan in one word.
  returned: when computed
  type: str
  sample: eJyLjgUAARUAuQ==
kinds:
  description: The kinds of workloads in the plan.
  returned: when computed
  type: list
  elements: str
  sample: [netns, vm]
digest:
  description: Fingerprint of the plan; equal for plans that say the same.
  returned: success
  type: str
  sample: 3b0c44298fc1c149
revision:
  description: Revision of the state that the plan was made of.
  returned: success
  type: int
  sample: 7
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.decide import STATE_ARGUMENTS, next_state
from ansible_collections.heddle.ovn.plugins.module_utils.document import pack
from ansible_collections.heddle.ovn.plugins.module_utils.keep import keep_plan
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.runner import PLAN_FILE, Failure, connected, reported
from ansible_collections.heddle.ovn.plugins.module_utils.state.database import operations


def main():
    """Compute or keep."""
    optional = {name: {**STATE_ARGUMENTS[name], "required": False} for name in ("resources", "nodes")}
    module = AnsibleModule(
        argument_spec={
            **STATE_ARGUMENTS,
            **optional,
            "document": {"type": "str"},
            "path": {"type": "path", "default": PLAN_FILE},
        },
        mutually_exclusive=[("resources", "document")],
        required_one_of=[("resources", "document")],
        required_by={"resources": ["nodes"]},
        supports_check_mode=True,
    )
    with reported(module):
        if module.params["document"]:
            module.exit_json(**keep_plan(module.params["document"], module.params["path"], write=not module.check_mode))
        with connected(module, module.params["socket"]) as client:
            before, after = next_state(module.params, client, write=False)
        if not module.check_mode and operations(before, after):
            raise Failure("the state changed after these manifests were admitted; run the playbook again")
        plan = build_plan(after)
    kinds = sorted({workload["kind"] for workload in plan["workloads"].values()})
    module.exit_json(changed=False, document=pack(plan), digest=plan["digest"], revision=plan["revision"], kinds=kinds)


if __name__ == "__main__":
    main()
