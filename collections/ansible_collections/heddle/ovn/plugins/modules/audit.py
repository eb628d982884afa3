#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare a host with its plan."""

from __future__ import annotations

DOCUMENTATION = r"""
module: audit
short_description: Compare a host with its plan
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Renders the host's desired state from the plan and compares it with the Northbound and Southbound rows, the
    ports of workloads, the network namespaces and the virtual machines of the host. Nothing is written.
  - The settings that ovn-controller reads and the bridges of the install playbook are compared as well, and each daemon
    of Open vSwitch and OVN that does not run is a problem.
  - Differences are returned by object and column, and grouped by cause. Foreign objects are listed, and do not
    count as drift.
  - A database that cannot be read is reported as a problem; the others are still compared.
extends_documentation_fragment:
  - heddle.ovn.attributes.info
  - heddle.ovn.plan
requirements:
  - pyroute2
seealso:
  - module: heddle.ovn.zone
  - module: heddle.ovn.reachability
"""

EXAMPLES = r"""
- name: Compare the host with its plan
  heddle.ovn.audit:
    node: "{{ inventory_hostname }}"
  register: audited

- name: Fail if the host differs
  ansible.builtin.assert:
    that: not audited.drift
"""

RETURN = r"""
drift:
  description:
    - The differences. C(column) is none where a whole object is missing or too many; then C(found) or
      C(expected) is none. C(cause) is the position of its cause in RV(causes).
  returned: success
  type: list
  elements: dict
  sample:
    - substrate: OVN_Northbound
      kind: Logical_Switch_Port
      name: red.red_red_red1
      network: red_red
      column: addresses
      expected: [0a:58:0a:80:00:03 10.128.0.3]
      found: [unknown]
      cause: 0
causes:
  description:
    - What explains the drift. C(substrate), C(kind), C(name), C(network), C(column), C(expected) and C(found) are those
      of the drift that explains the rest, or of something missing that is no drift itself. C(drift) is how many entries
      it explains, itself included, C(kinds) counts the others by substrate and kind, C(problem) is the line of
      RV(problems) that reports it.
  returned: success
  type: list
  elements: dict
  sample:
    - substrate: Open_vSwitch
      kind: Open_vSwitch
      name: host
      network: ""
      column: external_ids
      expected: {ovn-bridge-mappings: "physnet:br-ex"}
      found: {}
      problem: ""
      drift: 41
      kinds: {openflow flow: 36, openflow port: 4}
foreign:
  description: Objects in the same tables that do not belong to Heddle.
  returned: success
  type: list
  elements: dict
  sample:
    - substrate: OVN_Northbound
      kind: Logical_Switch
      name: by-hand
      identity: 4b1d5f0e-6f0c-4f57-9d0c-8a4d1c3a9f11
notes:
  description: What needs attention although nothing differs, one line each with the remedy.
  returned: success
  type: list
  elements: str
  sample: []
problems:
  description: One line for each part of the host that could not be compared.
  returned: success
  type: list
  elements: str
  sample: []
stopped:
  description: The units of the daemons that do not run; RV(problems) has a line with the remedy for each.
  returned: success
  type: list
  elements: str
  sample: [ovn-northd]
checked:
  description: Number of objects that the host should have.
  returned: success
  type: int
  sample: 244
routing:
  description: The neighbours that BIRD routes blocks of address pools with, and the number of routes.
  returned: when the plan has address pools
  type: list
  elements: dict
  sample:
    - name: heddle_node2_4
      kind: BGP
      title: node2
      address: 192.0.2.2
      as_number: 64512
      information: Established
      learned: 1
      advertised: 1
digest:
  description: Fingerprint of the part of the plan that the host was compared with.
  returned: success
  type: str
  sample: 3b0c44298fc1c149
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import PLAN_ARGUMENTS
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.compare import audit_result


def main():
    """Compare and report."""
    module = AnsibleModule(argument_spec=PLAN_ARGUMENTS, supports_check_mode=True)
    module_runner.run(module, audit_result)


if __name__ == "__main__":
    main()
