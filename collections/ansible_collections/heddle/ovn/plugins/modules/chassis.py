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
  - Configures Open vSwitch and the integration bridge of a host as ovn-controller needs them for a zone of its
    own, with C(fail_mode=secure) and without in-band control.
  - Attaches the uplink to the provider bridge and migrates the host's addresses and routes to the bridge without
    interruption. The uplink is detached, and its IP configuration restored, when the bridge is no longer wanted.
  - Where the kernel has no Open vSwitch, the userspace datapath is used; the underlay interface then becomes a port of
    the bridge C(br-underlay) in the same way.
  - Settings made by other software are kept.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.chassis
requirements:
  - pyroute2
seealso:
  - module: heddle.ovn.chassis_info
"""

EXAMPLES = r"""
- name: Make the host a chassis
  heddle.ovn.chassis:
    name: node1
    encap_ips: [198.18.1.11]
    provider:
      uplink: eth2
    physical_networks:
      factory: {bridge: br-factory, uplink: eth3}
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
gateway:
  description:
    - How the host is connected to the provider network, as the plan keeps it. Empty without O(provider), null in check
      mode on a host where it cannot be determined yet.
  returned: success
  type: dict
  sample: {"mode": "shared", "bridge": "br-ex", "uplink": "eth2", "mac": "02:68:64:00:02:01", "vrf": true}
underlay_mtu:
  description: MTU of the link with the tunnel endpoint; null when no link has the address.
  returned: success
  type: int
  sample: 1600
kernel_lacks:
  description: What the kernel lacks of what an Egress on this host needed; nothing as long as none did.
  returned: success
  type: list
  elements: str
  sample: []
other_addresses:
  description:
    - Addresses with prefix length on NICs that no bridge of Heddle has, by NIC.
    - Node ports of Services are at these addresses, and clients reach them by these NICs.
    - EgressIPs may be in their subnets, address pools may not.
  returned: success
  type: dict
  sample: {"eth3": ["198.51.100.11/24"]}
held_addresses:
  description: Addresses of EgressIPs and load balancers that the host has.
  returned: success
  type: list
  elements: str
  sample: [198.18.2.100]
name_servers:
  description:
    - Name servers of the host that its workloads can ask as well, of C(/etc/resolv.conf) or else of systemd-resolved,
      at most three. Loopback and link-local addresses are left out.
  returned: success
  type: list
  elements: str
  sample: [198.51.100.53]
planned:
  description: Whether the host has a plan already.
  returned: success
  type: bool
  sample: true
kept_plan:
  description: C(deployment) and C(revision) of the plan that the host has; null where it has none.
  returned: success
  type: dict
  sample: {"deployment": heddle, "revision": 7}
  version_added: 0.5.0
changes:
  description: The objects that were created, updated and deleted, and their number.
  returned: success
  type: dict
  sample: {"create": 3, "update": 1, "delete": 0, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis.chassis_calls import chassis_result
from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis.chassis_options import CHASSIS_OPTIONS


def main():
    """Apply and report."""
    module = AnsibleModule(argument_spec=CHASSIS_OPTIONS, supports_check_mode=True)
    module_runner.run(module, chassis_result)


if __name__ == "__main__":
    main()
