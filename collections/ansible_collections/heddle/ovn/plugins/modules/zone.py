#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Apply the plan to a host, which is a zone of OVN."""

from __future__ import annotations

DOCUMENTATION = r"""
module: zone
short_description: Apply the plan to a host
version_added: 0.3.0
author:
  - Heddle maintainers (@heddle)
description:
  - Every host is a zone of OVN with databases of its own. The plan is one document for all of them, of which each has
    its part.
  - Stores that part on the host, where C(heddle-host) reads it. A host that has one of a later plan of the same
    deployment rejects an earlier one.
  - Renders the host's desired state into Northbound rows and the other hosts into remote chassis of the Southbound
    database, and waits until ovn-northd and ovn-controller have programmed it (C(nb_cfg), C(sb_cfg), C(hv_cfg)).
  - Then the gateways, which are management ports, VRFs, routes, rules, flows of the provider's bridge and an nftables
    table, and then the workloads of this host with their interfaces.
  - Only what differs is changed. What carries the owner's mark and is not in the plan any more is deleted; other things
    are not changed.
  - A network whose rows, flows or links the host rejects does not affect others. The module then fails at the end and
    names it with the reason. So it does, under C(address pools), when BIRD does not accept its configuration.
  - Playbooks and C(heddle-host) lock each other out.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  node:
    description: Name of the host in the plan.
    type: str
    required: true
  document:
    description: The plan, as M(heddle.ovn.resource) returned it.
    type: str
    required: true
  plan:
    description: File of the plan.
    type: path
    default: /var/lib/heddle/plan.json
  parts:
    description: Which parts to apply, for example to find a slow or failing one.
    type: list
    elements: str
    choices: [topology, gateway, workloads]
    default: [topology, gateway, workloads]
  wait_timeout:
    description:
      - Seconds after which ovn-northd or ovn-controller is late with a change, if it has not worked meanwhile; 0 does
        not wait.
    type: int
    default: 120
  audit:
    description:
      - Whether to compare the host with the plan afterwards, for M(heddle.ovn.readiness). What was applied without any
        change counts as compared.
    type: bool
    default: false
    version_added: 0.4.0
  handover:
    description:
      - A step to do instead of applying O(document), when addresses of EgressIPs or load balancers move to other hosts
        (O(moved)). All hosts take each step before one of them takes the next one or applies the plan, so that no
        address is on two hosts.
      - V(prepare) applies O(document) but for the move. A host that loses the address of a load balancer does nothing
        yet. Apart from that nothing is left to do then, so connections are interrupted shortly only.
      - V(release) gives up the addresses that the host loses, and notifies other hosts on the provider network, which
        then begin V(claim) by themselves. What they have changed is reported by that.
      - V(claim) sets and announces the addresses that the host gets, leads workloads to the hosts that get addresses of
        EgressIPs, and waits until OVN does so. A host that loses an address of an EgressIP goes on dropping packets
        that other hosts still send to it for that address, as they would leave with its own. One that could not prepare
        applies O(document).
    type: str
    choices: [prepare, release, claim]
    version_added: 0.5.0
  moved:
    description: The addresses that move, as RV(heddle.ovn.resource#module:moved_addresses), each with its former host.
    type: dict
    default: {}
    version_added: 0.5.0
seealso:
  - module: heddle.ovn.resource
  - module: heddle.ovn.audit
"""

EXAMPLES = r"""
- name: Apply the plan to this host
  heddle.ovn.zone:
    node: "{{ inventory_hostname }}"
    document: "{{ admitted.host_plans[inventory_hostname] | default(admitted.plan) }}"
"""

RETURN = r"""
refused:
  description: Networks that this host rejected, wholly or in part, and why; all others are as planned.
  returned: failure, when the host refused networks
  type: dict
  sample: {"red_net": "link red exists and is not Heddle's"}
audit:
  description:
    - What M(heddle.ovn.readiness) needs of the comparison, C(digest), C(problems), and of C(drift) the networks that it
      is in.
  returned: success, with O(audit), not in check mode
  type: dict
  sample: {"digest": "3b0c44298fc1c149", "drift": [], "problems": []}
readiness:
  description:
    - What M(heddle.ovn.probe_info) returns, once each workload with a probe was probed.
  returned: success, with O(audit), not in check mode, when the plan has readiness probes and their service runs
  type: dict
  sample: {"red/web": {"ready": true, "message": ""}}
stopped_services:
  description:
    - Services of Heddle that do not run on this host, C(heddle-host) where it is installed and those that the plan
      needs, by the names of the collection's roles that start them. That of the mesh is one also when its certificate
      is about to expire.
  returned: success
  type: list
  elements: str
  sample: [mesh]
changes:
  description: The number of objects created, updated and deleted, and the first hundred of them.
  returned: success
  type: dict
  sample: {"create": 192, "update": 0, "delete": 0, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import ZONE_ARGUMENTS
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.zone_result import zone_result


def main():
    """Apply and report."""
    module = AnsibleModule(argument_spec=ZONE_ARGUMENTS, supports_check_mode=True)
    module_runner.run(module, zone_result)


if __name__ == "__main__":
    main()
