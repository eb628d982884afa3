#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Collect the actual network state of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Collect the actual network state of a host
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Returns bridges, VRFs, rules, routes, nftables rules and conntrack entries of a host, and traces
    one packet of a workload to an external host through OVN and through the provider bridge, and the host's part of one
    packet between hosts for each topology. Nothing is written; two workloads of networks with one subnet send a
    datagram to an external host, so that their connections can be shown.
extends_documentation_fragment:
  - heddle.ovn.attributes.info
  - heddle.ovn.plan
options:
  external:
    description: Addresses on the provider network; packets go to the first IPv4 one. Without it, no packet is traced.
    type: list
    elements: str
    default: []
seealso:
  - module: heddle.ovn.audit
"""

EXAMPLES = r"""
- name: Collect the network state
  heddle.ovn.host_info:
    node: "{{ inventory_hostname }}"
    external: [192.0.2.1]
  register: looked
"""

RETURN = r"""
host:
  description:
    - C(bridges) with their ports, C(vrfs) with their members, C(addresses), C(rules), C(routes), C(firewall), C(flows)
      of the provider bridge by table.
    - C(pair) are workloads of two networks with one subnet, C(conntrack) entries of theirs and of the provider bridge.
    - C(egress) is the packet and its traces by ovn-trace and ofproto/trace.
  returned: success
  type: dict
traces:
  description:
    - Packets between workloads on different hosts, one for each topology, by ovn-trace. It covers one host, so a packet
      has one entry on the host of its sender and another on that of its receiver.
    - C(title) is the same for both, C(text) is what ovn-trace printed, C(place) the order of all entries.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import HOST_INFO_ARGUMENTS
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.host_inspection import host_info_result


def main():
    """Collect and report."""
    module = AnsibleModule(argument_spec=HOST_INFO_ARGUMENTS, supports_check_mode=True)
    module_runner.run(module, host_info_result)


if __name__ == "__main__":
    main()
