#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make a host a chassis."""

from __future__ import annotations

DOCUMENTATION = r"""
module: chassis
short_description: Make a host a chassis
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Brings Open vSwitch's settings and the integration bridge of a host to what ovn-controller needs for a zone of its
    own, with C(fail_mode=secure) and without in-band control.
  - Where the kernel has no Open vSwitch, the userspace datapath is used; the underlay interface then becomes a port of
    the bridge C(br-underlay), which takes over its addresses.
  - Settings that somebody else made stay as they are.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  name:
    description: Name of the host.
    type: str
    required: true
  encapsulation:
    description: Addresses that tunnels end at, without prefix length.
    type: list
    elements: str
    required: true
  datapath:
    description: Datapath of the bridges; V(auto) takes V(system) where the kernel has Open vSwitch, else V(netdev).
    type: str
    choices: [auto, system, netdev]
    default: auto
  underlay_interface:
    description: Network card of the underlay; needed for the userspace datapath only.
    type: str
  underlay_addresses:
    description: Addresses of that network card, with prefix length.
    type: list
    elements: str
    default: []
  owner:
    description: What marks the rows as Heddle's own.
    type: str
    default: heddle:chassis
requirements:
  - pyroute2, for the userspace datapath
"""

EXAMPLES = r"""
- name: Make the host a chassis
  heddle.ovn.chassis:
    name: node1
    encapsulation: [198.18.1.11]
  register: chassis
"""

RETURN = r"""
chassis:
  description: The host's system-id, which is its chassis name; in check mode a stand-in where there is none yet.
  returned: success
  type: str
  sample: 7c3c1f0e-6f0c-4f57-9d0c-8a4d1c3a9f11
datapath:
  description: The datapath in use.
  returned: success
  type: str
  sample: system
changes:
  description: How many objects were created, updated and deleted, and which.
  returned: success
  type: dict
  sample: {"create": 3, "update": 1, "delete": 0, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.runner import reported, result
from ansible_collections.heddle.ovn.plugins.module_utils.share import apply_chassis


def main():
    """Apply and report."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "encapsulation": {"type": "list", "elements": "str", "required": True},
            "datapath": {"type": "str", "choices": ["auto", "system", "netdev"], "default": "auto"},
            "underlay_interface": {"type": "str"},
            "underlay_addresses": {"type": "list", "elements": "str", "default": []},
            "owner": {"type": "str", "default": "heddle:chassis"},
        },
        supports_check_mode=True,
    )
    with reported(module):
        outcome, facts = apply_chassis(module)
    module.exit_json(**result(outcome), **facts)


if __name__ == "__main__":
    main()
