#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write a backup of the state to a file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: state_backup
short_description: Write a backup of the state to a file
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Validates a backup and writes it as JSON that only its owner can read. The file is replaced atomically.
  - Runs on the host of the file, usually the control node.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  document:
    description: The backup, as returned by the M(heddle.ovn.state_backup_info) module.
    type: str
    required: true
  path:
    description: The file. Its directory is created if missing.
    type: path
    required: true
seealso:
  - module: heddle.ovn.state_backup_info
  - module: heddle.ovn.state_restoration
"""

EXAMPLES = r"""
- name: Write the backup on the control node
  heddle.ovn.state_backup:
    document: "{{ state.document }}"
    path: backup/heddle-7.json
  delegate_to: localhost
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /srv/fleet/backup/heddle-7.json
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import unpack
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.backup import BackupError, keep_backup


def main():
    """Compare, write, report."""
    arguments = {"document": {"type": "str", "required": True}, "path": {"type": "path", "required": True}}
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    path = module.params["path"]
    try:
        changed = keep_backup(unpack(module.params["document"]), path, write=not module.check_mode)
    except (BackupError, OSError, ValueError) as error:
        module.fail_json(msg=f"{path}: {error}")
    after = f"backup in {path}\n"
    module.exit_json(changed=changed, path=path, diff={"before": "" if changed else after, "after": after})


if __name__ == "__main__":
    main()
