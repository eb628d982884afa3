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
options:
  name:
    description: Name of the host.
    type: str
    required: true
  encap_ips:
    description: Addresses of the host's tunnel endpoints, without prefix length.
    type: list
    elements: str
    required: true
  datapath:
    description: Datapath of the bridges; V(auto) chooses V(system) where the kernel has Open vSwitch, else V(netdev).
    type: str
    choices: [auto, system, netdev]
    default: auto
  underlay_interface:
    description: NIC of the underlay; needed for the userspace datapath only.
    type: str
  provider:
    description:
      - How the host is connected to the provider network; without it its networks have no external connectivity.
    type: dict
    suboptions:
      uplink:
        description: NIC (uplink) of the provider network.
        type: str
        required: true
      bridge:
        description: Bridge that the uplink is attached to.
        type: str
        default: br-ex
      mode:
        description:
          - V(shared) sends packets of workloads straight to the provider network, V(local) through the host's kernel.
          - V(local) needs a kernel with VRFs.
        type: str
        choices: [shared, local]
        default: shared
      next_hops:
        description: Gateways of the provider network; by default those of the host's default routes.
        type: list
        elements: str
        default: []
      addresses:
        description: The preferred addresses of the host, if it has several of a family.
        type: list
        elements: str
        default: []
      vlan:
        description: VLAN of the provider network for the host itself and the gateway routers.
        type: int
      prober:
        description:
          - Cgroup (version 2) whose processes may reach workloads over the default network although they have a
            primary network of their own, as health probers must. A path below the root, like
            V(system.slice/prober.service).
          - The cgroup must exist. Without it, and on hosts with cgroup version 1, no process may.
        type: str
        default: ""
  physical_networks:
    description:
      - Further physical networks for Localnet networks. The key is the C(physicalNetworkName) of the
        manifest, the value has C(bridge) and, unless another physical network or O(provider) gives it, C(uplink).
    type: dict
    default: {}
  owner:
    description: Owner's mark of the rows.
    type: str
    default: heddle:chassis
requirements:
  - pyroute2
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
changes:
  description: The objects that were created, updated and deleted, and their number.
  returned: success
  type: dict
  sample: {"create": 3, "update": 1, "delete": 0, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis import apply_chassis
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import only_writer

PROVIDER_OPTIONS = {
    "uplink": {"type": "str", "required": True},
    "bridge": {"type": "str", "default": "br-ex"},
    "mode": {"type": "str", "choices": ["shared", "local"], "default": "shared"},
    "next_hops": {"type": "list", "elements": "str", "default": []},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "vlan": {"type": "int"},
    "prober": {"type": "str", "default": ""},
}


def main():
    """Apply and report."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "encap_ips": {"type": "list", "elements": "str", "required": True},
            "datapath": {"type": "str", "choices": ["auto", "system", "netdev"], "default": "auto"},
            "underlay_interface": {"type": "str"},
            "provider": {"type": "dict", "options": PROVIDER_OPTIONS},
            "physical_networks": {"type": "dict", "default": {}},
            "owner": {"type": "str", "default": "heddle:chassis"},
        },
        supports_check_mode=True,
    )
    with module_runner.reported(module), only_writer(write=not module.check_mode):
        outcome, facts = apply_chassis(module)
    module.exit_json(**module_runner.result(outcome), **facts)


if __name__ == "__main__":
    main()
