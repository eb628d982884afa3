#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Remove Heddle from a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_removal
short_description: Remove Heddle from a host
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Removes from a host all that Heddle put there, and restores what M(heddle.ovn.host_record) has recorded, namely
    packages, units, users, files, kernel settings and settings of Open vSwitch. Addresses and routes migrate from
    bridges to their uplinks, in an order in which nothing is missing at any moment.
  - Objects of other software stay. On a host without a record only what is marked as Heddle's is removed, and a warning
    says so.
  - A run that was cut off is completed by the next one.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  node:
    description: Name of the host in the inventory.
    type: str
    required: true
  deployment:
    description: Name that marks what Heddle owns, as for M(heddle.ovn.resource).
    type: str
    default: heddle
  databases:
    description: What to do with the state database. Databases of OVN and Open vSwitch follow the record.
    type: str
    choices: [remove, keep]
    default: remove
  packages:
    description: What to do with the packages that Heddle has installed.
    type: str
    choices: [remove, keep]
    default: remove
  remaining:
    description: Nodes that keep Heddle and would lose the state database with this host.
    type: list
    elements: str
    default: []
  force:
    description: Remove Heddle also if RV(blockers) has reasons against it.
    type: bool
    default: false
requirements:
  - pyroute2
seealso:
  - module: heddle.ovn.host_record
"""

EXAMPLES = r"""
- name: Remove Heddle from the host
  heddle.ovn.host_removal:
    node: node3
    deployment: lab
"""

RETURN = r"""
blockers:
  description:
    - What prevents the removal, with the remedy, one line each. These are workloads and virtual machines on the host,
      nodes that would be left without the state database, and ports of other software on Heddle's bridges.
    - Without O(force) the module fails with them; check mode reports them.
  returned: success
  type: list
  elements: str
  sample: []
recorded:
  description: Whether the host has a record of what it was before.
  returned: success
  type: bool
  sample: true
back_up:
  description: Whether the host runs a state database that is removed, so that it should be backed up before.
  returned: success
  type: bool
  sample: false
changes:
  description: What was removed and restored.
  returned: success
  type: dict
  sample: {"create": 0, "update": 3, "delete": 40, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.module_options import REMOVAL_ARGUMENTS
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.removal import removal_result


def main():
    """Remove and report."""
    module = AnsibleModule(argument_spec=REMOVAL_ARGUMENTS, supports_check_mode=True)
    module_runner.run(module, removal_result, cached=False)


if __name__ == "__main__":
    main()
