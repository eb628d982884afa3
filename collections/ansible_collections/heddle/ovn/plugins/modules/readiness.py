#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Record which hosts have which network."""

from __future__ import annotations

DOCUMENTATION = r"""
module: readiness
short_description: Record which hosts have which network
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Writes the condition C(NetworkReady) of every network that is in effect. It is true when every host has the plan
    of the stored manifests, has applied it, and nothing of the network differs there.
  - The state of every host is stored in the network's status.
  - Writes the condition C(Serving) of workloads with a readiness probe, and the endpoints of Services that follow.
  - Runs on the state host, after M(heddle.ovn.zone) ran on all hosts.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.state_database
options:
  hosts:
    description:
      - Results of M(heddle.ovn.audit) by host; empty for a host that did not answer. Only C(digest), C(problems),
        C(stopped) and, of each entry in C(drift), C(network) are used.
      - A host where the plan could not be applied has C(failed) and C(msg). One with C(asked) false was not asked,
        and keeps what it reported since the network changed last.
    type: dict
    required: true
  probes:
    description:
      - By host, C(readiness) as M(heddle.ovn.probe_info) returned it. Workloads of other hosts keep what is stored.
      - When Services have other endpoints then, RV(plan) has to be applied, and the module called again with new
        results.
    type: dict
    default: {}
    version_added: 0.5.0
  digest:
    description: RV(heddle.ovn.resource#module:digest) of the plan that the hosts got.
    type: str
    version_added: 0.5.0
  attention:
    description: Lines of RV(attention) besides those of the state, as RV(heddle.ovn.resource#module:attention).
    type: list
    elements: str
    default: []
    version_added: 0.5.0
seealso:
  - module: heddle.ovn.audit
  - module: heddle.ovn.probe_info
  - module: heddle.ovn.resource_info
"""

EXAMPLES = r"""
- name: Record which hosts have the networks
  heddle.ovn.readiness:
    hosts:
      node1: {digest: 3b0c44298fc1c149, drift: [], problems: []}
      node2: {}
"""

RETURN = r"""
attention:
  description: What needs attention, networks that are not ready, and totals, as text.
  returned: success
  type: str
  sample: |-
    Totals
                 all  ready
      networks    14     14
files:
  description: C(status.json) and C(status.txt), packed for M(heddle.ovn.report).
  returned: success
  type: str
  sample: eJyLjgUAARUAuQ==
plan:
  description: The plan with other endpoints, as M(heddle.ovn.resource) returns one.
  returned: when O(probes) changed the plan, and RV(host_plans) has no parts of it
  type: str
  sample: eJyLjgUAARUAuQ==
host_plans:
  description:
    - By host of RV(pending) the part of the plan that it needs, packed as RV(plan) is. M(heddle.ovn.zone) takes either.
    - None where addresses move, for which hosts need the plan of all, and where all parts are more than 32 MB.
  returned: when O(probes) changed the plan
  type: dict
  sample: {"node1": eJyLjgUAARUAuQ==}
  version_added: 0.5.0
pending:
  description: Hosts whose part of the plan is not the one that they reported; all hosts where addresses move.
  returned: when O(probes) changed the plan
  type: list
  elements: str
  sample: [node1]
moved_addresses:
  description: As RV(heddle.ovn.resource#module:moved_addresses), from the former plan to the new one.
  returned: when O(probes) changed the plan
  type: dict
  sample: {}
overtaken:
  description:
    - Whether the stored state makes another plan than O(digest) is of. Another run has changed it in the meantime then,
      and hosts may have parts of either plan.
  returned: success
  type: bool
  sample: false
  version_added: 0.5.0
digest:
  description: Fingerprint of the plan of the stored state.
  returned: when there is a state
  type: str
  sample: 3b0c44298fc1c149
  version_added: 0.5.0
revision:
  description: Revision of the state; grows with every change.
  returned: success
  type: int
  sample: 8
changes:
  description: Changes as text.
  returned: success
  type: str
  sample: |-
    Changes (1)
      status UserDefinedNetwork/red/red: NetworkReady Unknown -> True (AllHostsReady)
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import READINESS_ARGUMENTS
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness_record import readiness_result


def main():
    """Record and report."""
    module = AnsibleModule(argument_spec=READINESS_ARGUMENTS, supports_check_mode=True)
    module_runner.run(module, readiness_result)


if __name__ == "__main__":
    main()
