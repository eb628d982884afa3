#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Restore a backup into the state database."""

from __future__ import annotations

DOCUMENTATION = r"""
module: state_restoration
short_description: Restore a backup into the state database
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Validates a backup, writes it in one transaction into an empty state database, and compares what was stored with it.
  - A restored cluster has the same ids, keys and addresses of networks and workloads as before.
  - A state database with equal content is not changed; one with other content is refused unless
    O(overwrite) is given.
  - Runs on the state host.
extends_documentation_fragment:
  - heddle.ovn.attributes
  - heddle.ovn.state_database
options:
  path:
    description: The backup, a file on the state host that the M(heddle.ovn.state_backup) module wrote.
    type: path
    required: true
  overwrite:
    description: Replace the content of a state database of the same deployment.
    type: bool
    default: false
  least_revision:
    description:
      - The revision of the state becomes at least this one. Hosts reject a plan that is older than theirs, so use the
        highest revision of any host, plus one.
    type: int
    default: 0
seealso:
  - module: heddle.ovn.state_backup
"""

EXAMPLES = r"""
- name: Restore the state
  heddle.ovn.state_restoration:
    path: /run/heddle-state-backup.json
"""

RETURN = r"""
revision:
  description: Revision of the state.
  returned: success
  type: int
  sample: 8
differences:
  description: Names of the objects and allocations that changed.
  returned: success
  type: list
  elements: str
  sample: ["object UserDefinedNetwork/red/red", "allocation network-id red_red"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.state_connection import STATE_DATABASE, state_database
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.backup import (
    BackupError,
    read_backup,
    restore,
)
from ansible_collections.heddle.ovn.plugins.module_utils.operations.admission_service import state_changes
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import now

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "overwrite": {"type": "bool", "default": False},
    "least_revision": {"type": "int", "default": 0},
    **STATE_DATABASE,
}


def main():
    """Validate, store, compare, report."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    write = not module.check_mode
    options = {name: module.params[name] for name in ("overwrite", "least_revision")}
    try:
        document = read_backup(module.params["path"])
        with module_runner.reported(module), state_database(module, write=write) as client:
            before, after = restore(client, document, moment=now(), write=write, **options)
    except BackupError as error:
        module.fail_json(msg=str(error))
    outcome = Outcome(state_changes(before, after))
    module.exit_json(
        changed=outcome.changed,
        diff=outcome.diff(),
        revision=after.revision,
        differences=[f"{change.kind} {change.name}" for change in outcome.changes],
    )


if __name__ == "__main__":
    main()
