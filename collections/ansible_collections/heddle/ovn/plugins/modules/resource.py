#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Admit manifests into the state database and build the plan."""

from __future__ import annotations

DOCUMENTATION = r"""
module: resource
short_description: Admit manifests into the state database and build the plan
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Checks manifests against all stored objects, allocates node ids, network ids, tunnel keys, subnets and addresses,
    and stores the result in one transaction.
  - Of two concurrent runs, the second one's transaction is rejected and decided again.
  - Mistakes that an API server would reject are rejected, all at once, and nothing is written then.
  - Everything else is stored and realised as far as possible. Conditions in the status of the objects report what is
    not, and why. A network in use is deleted when its last workload is gone.
  - The plan is derived from the state; in check mode, from the state as it would become.
  - Runs on the state host.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.state
  - heddle.ovn.state_database
options:
  hosts:
    description:
      - By host, RV(heddle.ovn.chassis_info#module:audit). Where all hosts of the run are as the plan already, the
        module does what M(heddle.ovn.readiness) does, and returns RV(recorded).
      - A host that is missing or empty is not known to be as the plan. One with C(asked) false was not asked, as beyond
        C(--limit). Where an address of an EgressIP or load balancer moves, and such a host has it, gets it or sends
        with it, the manifests are rejected.
    type: dict
    default: {}
    version_added: 0.5.0
  probes:
    description: As O(heddle.ovn.readiness#module:probes).
    type: dict
    default: {}
    version_added: 0.5.0
seealso:
  - module: heddle.ovn.manifest
  - module: heddle.ovn.zone
"""

EXAMPLES = r"""
- name: Admit the manifests
  heddle.ovn.resource:
    resources: "{{ manifests.document }}"
    nodes:
      node1:
        chassis: 7c3c1f0e-6f0c-4f57-9d0c-8a4d1c3a9f11
        encap_ips: [198.18.1.11]
        addresses: [198.18.2.11]
  register: admitted
"""

RETURN = r"""
plan:
  description: The plan of all hosts, compressed and base64-encoded, for M(heddle.ovn.zone).
  returned: when hosts of RV(pending) have to take it, since RV(host_plans) has none
  type: str
  sample: eJyLjgUAARUAuQ==
host_plans:
  description:
    - By host of RV(pending) the part of the plan that it needs, packed as RV(plan) is. M(heddle.ovn.zone) takes either.
    - None where addresses move, for which hosts need the plan of all, and where all parts are more than 32 MB.
  returned: success
  type: dict
  sample: {"node1": eJyLjgUAARUAuQ==}
  version_added: 0.5.0
recorded:
  description: What M(heddle.ovn.readiness) returns.
  returned: when O(hosts) are as the plan already, not in check mode
  type: dict
digest:
  description: Fingerprint of the plan; equal for plans with equal content.
  returned: success
  type: str
  sample: 3b0c44298fc1c149
kinds:
  description: The kinds of workloads in the plan.
  returned: success
  type: list
  elements: str
  sample: [netns, vm]
moved_addresses:
  description: Addresses of EgressIPs and load balancers that another host gets, each with its former host, by
    the plans and by what the hosts have.
  returned: success
  type: dict
  sample: {"198.18.2.100": node1}
pending:
  description:
    - Hosts of the run that are not known to have their part of the plan, by O(hosts); all hosts where addresses move.
      These have to apply the plan.
  returned: success
  type: list
  elements: str
  version_added: 0.5.0
  sample: [node1]
revision:
  description: Revision of the state; grows with every change.
  returned: success
  type: int
  sample: 7
changes:
  description: Changes of objects, conditions and allocations, as text.
  returned: success
  type: str
  sample: |-
    Changes (1)
      create UserDefinedNetwork/red/red
attention:
  description:
    - What needs attention in this run and is not in the state, for M(heddle.ovn.readiness).
    - That are hosts which are not in the inventory any more and had addresses of EgressIPs or load balancers.
  returned: success
  type: list
  elements: str
  version_added: 0.5.0
  sample: []
table:
  description: What needs attention as text, the objects that are not ready, and totals of each kind.
  returned: success
  type: str
  sample: |-
    Objects (1)
      kind                all  ready
      UserDefinedNetwork    1      1
differences:
  description: Names of the objects and allocations that changed.
  returned: success
  type: list
  elements: str
  sample: ["object UserDefinedNetwork/red/red", "allocation network-id red_red"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import RESOURCE_ARGUMENTS
from ansible_collections.heddle.ovn.plugins.module_utils.operations.admission_result import resource_result


def main():
    """Decide, store, report."""
    module = AnsibleModule(argument_spec=RESOURCE_ARGUMENTS, supports_check_mode=True)
    module_runner.run(module, resource_result)


if __name__ == "__main__":
    main()
