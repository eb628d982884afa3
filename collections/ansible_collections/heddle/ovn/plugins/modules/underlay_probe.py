#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Find out which tunnelled packets get through between hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: underlay_probe
short_description: Find out which tunnelled packets get through between hosts
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - Sends packets in the form of Geneve (UDP port 6081) and VXLAN (UDP port 4789) to all other hosts, in both
    directions, with addresses of either family, and searches for the largest that arrives without being fragmented.
  - A size counts as too large when smaller packets that were sent after it arrive and it does not, several times. So
    the result does not depend on how fast the hosts are.
  - Works before Open vSwitch is installed, and beside its tunnels. The packets have the network identifier 0, which no
    network has.
  - The steps are run one after the other on all hosts. Between the first and the last one each host has a process that
    answers only to this measurement; it ends by itself after 15 minutes.
extends_documentation_fragment:
  - heddle.ovn.attributes.info
options:
  state:
    description:
      - With V(started) the host begins to answer, with V(measured) it sends and waits for the results, with
        V(finished) it stops and returns what it has received.
    type: str
    choices: [started, measured, finished]
    required: true
  node:
    description: Name of this host in O(peers).
    type: str
    required: true
  peers:
    description: The tunnel addresses of all hosts, by name, including this one.
    type: dict
    required: true
  interface:
    description: NIC of the underlay.
    type: str
    required: true
  mtu:
    description: MTU of that NIC, in bytes; without it the largest packet that it takes is found by trying.
    type: int
  measurement:
    description: Any text that is the same on all hosts; packets of another measurement are ignored.
    type: str
    default: heddle
seealso:
  - module: heddle.ovn.resource
"""

EXAMPLES = r"""
- name: Answer probes
  heddle.ovn.underlay_probe:
    state: started
    node: "{{ inventory_hostname }}"
    peers: {node1: [198.18.1.11], node2: [198.18.1.12]}
    interface: eth1

- name: Search for the largest packets
  heddle.ovn.underlay_probe:
    state: measured
    node: "{{ inventory_hostname }}"
    peers: {node1: [198.18.1.11], node2: [198.18.1.12]}
    interface: eth1
  register: measured
"""

RETURN = r"""
problems:
  description: By encapsulation, why this host receives none; nothing when it can receive.
  returned: when O(state=started)
  type: dict
  sample: {"vxlan": "another program has UDP port 4789"}
sent:
  description: >-
    By other host and encapsulation, the length in bytes of the largest IP packet whose arrival was acknowledged; 0 when
    none was.
  returned: when O(state=measured)
  type: dict
  sample: {"node2": {"geneve": 1500, "vxlan": 1500}}
received:
  description: The same for what this host has received from others.
  returned: when O(state=finished)
  type: dict
  sample: {"node2": {"geneve": 1500, "vxlan": 1500}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.underlay_probe import (
    UNDERLAY_PROBE_ARGUMENTS,
    underlay_probe_result,
)


def main():
    """Do one step."""
    module = AnsibleModule(argument_spec=UNDERLAY_PROBE_ARGUMENTS, supports_check_mode=True)
    module_runner.run(module, underlay_probe_result, cached=not module.check_mode)


if __name__ == "__main__":
    main()
