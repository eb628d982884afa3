#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring several files of a host to given texts in one task."""

from __future__ import annotations

DOCUMENTATION = r"""
module: file_set
short_description: Bring several files of a host to given texts in one task
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Brings files to given texts and the mode 0644, and makes missing directories. One task for many small files takes as
    long as one file, since most of the time of such a task is the way to the host.
  - A file is replaced atomically, so that a reader never sees a partial file.
attributes:
  check_mode:
    description: Reports which files would change.
    support: full
  diff_mode:
    description: Returns the texts before and after.
    support: full
  idempotent:
    description: A file with equal text and mode is not written.
    support: full
options:
  files:
    description: The text of each file by its absolute path.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Install the drop-ins of the daemons
  heddle.ovn.file_set:
    files:
      /etc/systemd/system/ovn-northd.service.d/restart.conf: |
        [Service]
        Restart=always
"""

RETURN = r"""
written:
  description: Paths of the files that changed, or would.
  returned: success
  type: list
  elements: str
  sample: [/etc/systemd/system/ovn-northd.service.d/restart.conf]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import EngineError
from ansible_collections.heddle.ovn.plugins.module_utils.common.file_set import reconcile_files


def main():
    """Write what differs."""
    module = AnsibleModule(
        argument_spec={"files": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    try:
        changes = reconcile_files(
            {path: str(text) for path, text in module.params["files"].items()}, write=not module.check_mode
        )
    except EngineError as error:
        module.fail_json(msg=str(error))
    diff = [
        {"before_header": one.path, "after_header": one.path, "before": one.before or "", "after": one.after}
        for one in changes
    ]
    module.exit_json(changed=bool(changes), written=[one.path for one in changes], diff=diff)


if __name__ == "__main__":
    main()
