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
  - Reports which services run with former files, also where an earlier run wrote them and was cut off before it
    restarted anything.
attributes:
  check_mode:
    description: Reports which files would change, and which services would have to be restarted.
    support: full
  diff_mode:
    description: Returns the texts before and after.
    support: full
  idempotent:
    description: A file with equal text and mode is not written. A service that was restarted is not reported again.
    support: full
options:
  files:
    description: The text of each file by its absolute path.
    type: dict
    required: true
  services:
    description:
      - The files that a systemd service, timer or socket is started with, a list of absolute paths by its name. They
        need not be among O(files).
      - RV(outdated) has those that run and are older than one of these files, and those whose unit systemd has not
        read since it changed. While there are any, the task is changed, so that it notifies the handlers that restart
        them.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Install the drop-ins of the daemons
  heddle.ovn.file_set:
    files:
      /etc/systemd/system/ovn-northd.service.d/restart.conf: |
        [Service]
        Restart=always
    services:
      ovn-northd: [/etc/systemd/system/ovn-northd.service.d/restart.conf]
  register: daemon_drop_ins
  # The handler has the condition: "'ovn-northd' in daemon_drop_ins.outdated"
  notify: Restart ovn-northd
"""

RETURN = r"""
written:
  description: Paths of the files that changed, or would.
  returned: success
  type: list
  elements: str
  sample: [/etc/systemd/system/ovn-northd.service.d/restart.conf]
outdated:
  description: Names of O(services) that have to be restarted, or would have to be, for their files.
  returned: success
  type: list
  elements: str
  sample: [ovn-northd]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import EngineError
from ansible_collections.heddle.ovn.plugins.module_utils.common.files.file_set import reconcile_files
from ansible_collections.heddle.ovn.plugins.module_utils.common.files.service_files import outdated_services


def main():
    """Write what differs."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "dict", "required": True},
            "services": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    try:
        changes = reconcile_files(
            {path: str(text) for path, text in module.params["files"].items()}, write=not module.check_mode
        )
    except EngineError as error:
        module.fail_json(msg=str(error))
    written = [one.path for one in changes]
    outdated = outdated_services(module.params["services"], written)
    diff = [
        {"before_header": one.path, "after_header": one.path, "before": one.before or "", "after": one.after}
        for one in changes
    ]
    diff += [
        {"before_header": name, "after_header": name, "before": "runs with former files\n", "after": "restarted\n"}
        for name in outdated
    ]
    module.exit_json(changed=bool(changes or outdated), written=written, outdated=outdated, diff=diff)


if __name__ == "__main__":
    main()
