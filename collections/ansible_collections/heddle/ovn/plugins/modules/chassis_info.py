#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Report how a host is connected, and what it lacks to be the chassis that the inventory describes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: chassis_info
short_description: Report how a host is connected, and what it lacks to be a chassis
version_added: 0.3.0
author:
  - Heddle maintainers (@heddle)
description:
  - Returns what M(heddle.ovn.chassis) returns with the same options, and what that module would change. Nothing is
    written, and hosts without Open vSwitch or pyroute2 are no error.
  - The plan is built from it when a host is not installed in the same run.
options:
  compared:
    description:
      - Whether to compare the host with the plan that it has as well. If nothing differs, RV(audit) is what
        M(heddle.ovn.zone) would return for this plan.
      - Nothing is compared in check mode, with C(--diff), and where no comparison without a difference was recorded
        that makes this one short.
    type: bool
    default: false
    version_added: 0.5.0
extends_documentation_fragment:
  - heddle.ovn.attributes.info
  - heddle.ovn.chassis
seealso:
  - module: heddle.ovn.chassis
  - module: heddle.ovn.resource
"""

EXAMPLES = r"""
- name: Read how the host is connected
  heddle.ovn.chassis_info:
    name: node1
    encap_ips: [198.18.1.11]
    provider:
      uplink: eth2
  register: found

- name: Stop when the host is not what the inventory describes
  ansible.builtin.assert:
    that: not found.differences
"""

RETURN = r"""
chassis:
  description: As RV(heddle.ovn.chassis#module:chassis) in check mode.
  returned: success
  type: str
  sample: 7c3c1f0e-6f0c-4f57-9d0c-8a4d1c3a9f11
datapath:
  description: As RV(heddle.ovn.chassis#module:datapath).
  returned: success
  type: str
  sample: system
gateway:
  description: As RV(heddle.ovn.chassis#module:gateway); null on a host without pyroute2.
  returned: success
  type: dict
  sample: {"mode": "shared", "bridge": "br-ex", "uplink": "eth2"}
underlay_mtu:
  description: As RV(heddle.ovn.chassis#module:underlay_mtu).
  returned: success
  type: int
  sample: 1600
kernel_lacks:
  description: As RV(heddle.ovn.chassis#module:kernel_lacks).
  returned: success
  type: list
  elements: str
  sample: []
other_addresses:
  description: As RV(heddle.ovn.chassis#module:other_addresses).
  returned: success
  type: dict
  sample: {"eth3": ["198.51.100.11/24"]}
name_servers:
  description: As RV(heddle.ovn.chassis#module:name_servers).
  returned: success
  type: list
  elements: str
  sample: [198.51.100.53]
held_addresses:
  description: As RV(heddle.ovn.chassis#module:held_addresses).
  returned: success
  type: list
  elements: str
  sample: [198.18.2.100]
planned:
  description: As RV(heddle.ovn.chassis#module:planned).
  returned: success
  type: bool
  sample: true
kept_plan:
  description: As RV(heddle.ovn.chassis#module:kept_plan).
  returned: success
  type: dict
  sample: {"deployment": heddle, "revision": 7}
  version_added: 0.5.0
differences:
  description: What M(heddle.ovn.chassis) would change, one object per line, a hundred at most.
  returned: success
  type: list
  elements: str
  sample: ["create Open_vSwitch Bridge br-ex"]
audit:
  description: As RV(heddle.ovn.zone#module:audit), for the plan that the host has.
  returned: success, with O(compared), when the host is as that plan and so recorded
  type: dict
  sample: {"digest": "3b0c44298fc1c149", "drift": [], "problems": []}
readiness:
  description: As RV(heddle.ovn.zone#module:readiness).
  returned: as RV(audit), when the plan has readiness probes
  type: dict
  sample: {"red/web": {"ready": true, "message": ""}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis.chassis_options import CHASSIS_INFO_OPTIONS
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.described_host import chassis_info_result


def main():
    """Read and report."""
    module = AnsibleModule(argument_spec=CHASSIS_INFO_OPTIONS, supports_check_mode=True)
    module_runner.run(module, chassis_info_result)


if __name__ == "__main__":
    main()
