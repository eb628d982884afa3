#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Record what a host is before a role changes it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_record
short_description: Record what a host is before a role changes it
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Writes to C(/var/lib/heddle/before.json) what a role is about to change, as M(heddle.ovn.host_removal) restores it,
    namely packages, units, users, files, kernel settings, NICs, and settings of Open vSwitch.
  - Each role is recorded once, before its first change. A later run adds only packages and NICs that were not named
    before. A host on which a release without records has applied the role gets no record for it.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  role:
    description: Role that is about to change the host. V(node) is that of the roles C(chassis) and C(host).
    type: str
    required: true
    choices: [node, state, bird, metrics, mesh, probes, dns_names, underlay, hypervisor]
  packages:
    description: Packages that the role installs, as apt takes them; versions are ignored.
    type: list
    elements: str
    default: []
  interfaces:
    description: NICs that the role attaches to bridges. A missing one is ignored.
    type: list
    elements: str
    default: []
seealso:
  - module: heddle.ovn.host_removal
"""

EXAMPLES = r"""
- name: Record the host before the first change
  heddle.ovn.host_record:
    role: node
    packages: [openvswitch-switch=3.5.*, nftables]
    interfaces: [eth1, eth2]
"""

RETURN = r"""
changes:
  description: Whether the record was created or updated, and what with.
  returned: success
  type: dict
  sample: {"create": 1, "update": 0, "delete": 0, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.module_options import RECORD_ARGUMENTS
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.recording import record_result


def main():
    """Record and report."""
    module = AnsibleModule(argument_spec=RECORD_ARGUMENTS, supports_check_mode=True)
    module_runner.run(module, record_result)


if __name__ == "__main__":
    main()
