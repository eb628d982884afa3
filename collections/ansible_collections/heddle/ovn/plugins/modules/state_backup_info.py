#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Return the content of the state database as one document."""

from __future__ import annotations

DOCUMENTATION = r"""
module: state_backup_info
short_description: Return the content of the state database as one document
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Returns manifests, allocations and settings, with a format version and a digest.
  - Runs on the state host.
extends_documentation_fragment:
  - heddle.ovn.attributes.info
  - heddle.ovn.state_database
seealso:
  - module: heddle.ovn.state_backup
  - module: heddle.ovn.state_restoration
"""

EXAMPLES = r"""
- name: Read the state
  heddle.ovn.state_backup_info:
  register: state
"""

RETURN = r"""
document:
  description: The backup, compressed and base64-encoded, for the module M(heddle.ovn.state_backup).
  returned: success
  type: str
  sample: eJyrVkrLz1eyUkpKLFKqBQAXDgQ1
deployment:
  description: Name of the deployment.
  returned: success
  type: str
  sample: heddle
revision:
  description: Revision of the state.
  returned: success
  type: int
  sample: 7
digest:
  description: SHA-256 of the content.
  returned: success
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.state_connection import STATE_DATABASE, state_database
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.backup import BackupError, backup_of
from ansible_collections.heddle.ovn.plugins.module_utils.store.database import read


def main():
    """Read and return."""
    module = AnsibleModule(argument_spec=dict(STATE_DATABASE), supports_check_mode=True)
    with module_runner.reported(module), state_database(module, write=False, required=True) as client:
        snapshot = read(client)
    try:
        backup = backup_of(snapshot)
    except BackupError as error:
        module.fail_json(msg=str(error))
    result = {name: backup[name] for name in ("deployment", "revision", "digest")}
    module.exit_json(changed=False, document=pack(backup), **result)


if __name__ == "__main__":
    main()
