#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Test the reachability of workloads within, into and out of networks."""

from __future__ import annotations

DOCUMENTATION = r"""
module: reachability
short_description: Test the reachability of workloads within, into and out of networks
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - With O(state=started) a background process answers UDP, and TCP where a Service leads there, for each workload of
    the host, in the workload's network namespace and on its own addresses only, and for the host on its address of
    the provider network. It ends by itself after O(lifetime) seconds.
  - With O(state=probed) workloads of the host send questions to other workloads of the plan, external hosts, their
    own host and the next one, and the shared services; the host sends to its own workloads and those of the next node.
    An answer carries the name of its sender, so that networks with equal subnets are distinguished, and the source
    address of the question as it arrived. Required reachability is tested with packets of the network's MTU.
  - Questions are sent as fast as hosts answer. Silence counts only after questions over the same hosts that were
    answered before have been answered once more.
  - With O(state=confirmed) the questions of O(again) are sent once more, each alone and several times, with questions
    that are known to be answered in between. Only a question that stays without an answer then has failed.
  - On a host of O(external), where Heddle need not be installed, O(state=probed) sends frames with workloads' addresses
    to their nodes.
  - With O(state=stopped) the process ends, and the senders of received packets are returned, with the seconds until
    they were answered. A packet that arrived where it must not is a leak even if the answer was lost.
  - Responders should run on all hosts before the first is probed. The P(heddle.ovn.reachability_report#filter) filter
    combines the results of all hosts.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.plan
options:
  state:
    description: The operation.
    type: str
    choices: [started, probed, confirmed, stopped]
    required: true
  port:
    description: UDP and TCP port of the responders.
    type: int
    default: 7654
  lifetime:
    description:
      - Seconds after which a responder ends if it is not stopped, so that none stays after a run that was killed.
      - If it ends before it is stopped, isolation of what is on the host is reported as not tested.
    type: int
    default: 14400
  timeout:
    description:
      - Seconds without any answer after which the remaining questions are skipped.
      - Skipped questions are reported as not tested, not as failed.
    type: int
    default: 60
  external:
    description:
      - External hosts on the provider network, with a list of addresses of each.
      - Without them no packets are sent to or from external hosts.
    type: dict
    default: {}
  pairs:
    description:
      - Which pairs of workloads are tested.
      - With V(classes), one question for each network, pair of hosts, direction, address family and kind of flow, every
        workload by one other, and one workload of each network and host for every other network. The number of
        questions grows with the workloads. On a network of more than 41 hosts each asks 40 others, which the seed
        chooses.
      - With V(all), every pair. The number of questions grows with the square of the workloads.
    type: str
    choices: [classes, all]
    default: classes
  seed:
    description:
      - Seed for the choice of one workload of each class; any text. All hosts need the same one.
      - If empty, the fingerprint of the plan.
    type: str
    default: ""
  again:
    description: The questions to confirm, as the filter P(heddle.ovn.reachability_report#filter) returns them.
    type: str
requirements:
  - pyroute2, except on external hosts
seealso:
  - module: heddle.ovn.audit
"""

EXAMPLES = r"""
- name: Answer for all workloads
  heddle.ovn.reachability:
    node: "{{ inventory_hostname }}"
    state: started

- name: Probe other workloads
  heddle.ovn.reachability:
    node: "{{ inventory_hostname }}"
    state: probed
  register: probed

- name: Confirm questions without an answer
  heddle.ovn.reachability:
    node: "{{ inventory_hostname }}"
    state: confirmed
    again: "{{ evaluated.again[inventory_hostname] }}"
  when: inventory_hostname in evaluated.again

- name: Stop answering
  heddle.ovn.reachability:
    node: "{{ inventory_hostname }}"
    state: stopped
"""

RETURN = r"""
record:
  description:
    - Questions and answers, as a compressed document for the P(heddle.ovn.reachability_report#filter) filter.
  returned: when O(state=probed) or O(state=confirmed)
  type: str
  sample: eJyLjgUAARUAuQ==
unanswered:
  description: Number of questions without an answer, or with a wrong one, that should be asked alone.
  returned: when O(state=probed) or O(state=confirmed)
  type: int
  sample: 0
received:
  description:
    - Senders of received packets and the seconds until the answer, as a compressed document for the same filter.
  returned: when O(state=stopped)
  type: str
  sample: eJyLjgUAARUAuQ==
problems:
  description:
    - One line for each workload or address that could not be tested.
    - With O(state=stopped), why not all received packets are known.
  returned: always
  type: list
  elements: str
  sample: ["red/red1: there is no network namespace red_red1"]
digest:
  description: Fingerprint of the host's part of the plan.
  returned: when O(state=started), except on external hosts
  type: str
  sample: 3b0c44298fc1c149
document:
  description:
    - The host's part of the plan, compressed and base64-encoded. Those of all hosts, merged by
      P(heddle.ovn.merged_plan#filter), are O(document) for O(state=probed) and O(state=confirmed).
  returned: when O(state=started), except on external hosts
  type: str
  sample: eJyLjgUAARUAuQ==
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import (
    REACHABILITY_ARGUMENTS,
    REACHABILITY_REQUIRED_IF,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.reach import reachability_result


def main():
    """Respond, probe or stop."""
    module = AnsibleModule(
        argument_spec=REACHABILITY_ARGUMENTS, required_if=REACHABILITY_REQUIRED_IF, supports_check_mode=True
    )
    module_runner.run(module, reachability_result)


if __name__ == "__main__":
    main()
