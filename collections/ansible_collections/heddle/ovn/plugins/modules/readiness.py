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
seealso:
  - module: heddle.ovn.audit
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
from ansible_collections.heddle.ovn.plugins.module_utils.agent.state_connection import STATE_DATABASE, state_database
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.operations.admission_service import state_changes
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import record
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import changes_text


def main():
    """Record and report."""
    module = AnsibleModule(
        argument_spec={
            "hosts": {"type": "dict", "required": True},
            **STATE_DATABASE,
        },
        supports_check_mode=True,
    )
    write = not module.check_mode
    with module_runner.reported(module), state_database(module, write=write) as client:
        before, after = record(client, module.params["hosts"], write=write)
    outcome = Outcome(state_changes(before, after))
    module.exit_json(
        changed=outcome.changed, diff=outcome.diff(), revision=after.revision, changes=changes_text(before, after)
    )


if __name__ == "__main__":
    main()
