#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Validate the inventory before a host is contacted."""

from __future__ import annotations

DOCUMENTATION = r"""
module: inventory
short_description: Validate the inventory before a host is contacted
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Checks the groups C(heddle_nodes), C(heddle_state) and C(heddle_external), all variables whose names begin with
    C(heddle_), and the versions of ansible-core and Python on the control node.
  - Variables have to be known, of the right type, within their range and format, and must not contradict each other,
    for instance by the same address on two hosts.
  - All mistakes are reported at once, each with host or group, variable, rule and remedy, and with file and line from
    ansible-core 2.19 on. No host is contacted.
  - Always runs on the control node, whatever host the task is for; once is enough for all of them.
extends_documentation_fragment:
  - heddle.ovn.attributes.info
attributes:
  action:
    description: This is an action plugin, so no code is sent to a host.
    support: full
options:
  packages:
    description: Python packages that the control node has to have for optional parts.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the package, as it is imported.
        type: str
        required: true
      requirements:
        description: File of requirements that has it, for the message.
        type: str
        required: true
  allowed:
    description: Further variables whose names begin with C(heddle_), which an inventory uses for itself.
    type: list
    elements: str
    default: []
seealso:
  - module: heddle.ovn.manifest
"""

EXAMPLES = r"""
- name: Validate the inventory
  heddle.ovn.inventory:
  run_once: true
"""

RETURN = r"""
hosts:
  description: Number of hosts in the three groups.
  returned: success
  type: int
  sample: 4
problems:
  description: One line for each mistake.
  returned: failure
  type: list
  elements: str
  sample: ["host node2: heddle_uplnk: is no variable of Heddle; did you mean heddle_uplink? (hosts.yml:12)"]
"""
