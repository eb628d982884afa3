#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep the plan on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Keep the plan on a host
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - The plan is one document, the same for every host, with everything that hosts need to know.
  - A host that has a later plan of the same deployment refuses an earlier one.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  document:
    description: The plan to keep, as M(heddle.ovn.resource) returned it.
    type: str
    required: true
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
- name: Keep the plan on a host
  heddle.ovn.plan:
    document: "{{ admitted.plan }}"
"""

RETURN = r"""
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

from ansible_collections.heddle.ovn.plugins.module_utils.keep import keep_plan
from ansible_collections.heddle.ovn.plugins.module_utils.runner import PLAN_FILE, reported


def main():
    """Compare, replace, report."""
    module = AnsibleModule(
        argument_spec={
            "document": {"type": "str", "required": True},
            "path": {"type": "path", "default": PLAN_FILE},
        },
        supports_check_mode=True,
    )
    with reported(module):
        kept = keep_plan(module.params["document"], module.params["path"], write=not module.check_mode)
    module.exit_json(**kept)


if __name__ == "__main__":
    main()
