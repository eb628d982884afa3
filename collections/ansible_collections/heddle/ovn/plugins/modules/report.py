#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write the files of a report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Write the files of a report
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Writes texts into files of one directory, all in one task. The directory is created if missing.
  - A file is replaced atomically, so that a reader never sees a partial file.
attributes:
  check_mode:
    description: Reports which files would change.
    support: full
  diff_mode:
    description: Reports are too long for a readable difference.
    support: none
  idempotent:
    description: A file with equal content is not written.
    support: full
options:
  directory:
    description: Directory of the files.
    type: path
    required: true
  files:
    description: The text of each file by its name, without a directory.
    type: dict
    default: {}
  packed:
    description: Further files, as M(heddle.ovn.readiness) returns them.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Write the report
  heddle.ovn.report:
    directory: "{{ playbook_dir }}/report"
    files:
      audit.json: "{{ audit | to_json }}\n"
"""

RETURN = r"""
written:
  description: Names of the files that changed, or would.
  returned: success
  type: list
  elements: str
  sample: [audit.json]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.common.files.report_files import (
    REPORT_ARGUMENTS,
    Refused,
    report_result,
)


def main():
    """Write what differs."""
    module = AnsibleModule(argument_spec=REPORT_ARGUMENTS, supports_check_mode=True)
    try:
        module.exit_json(**report_result(module.params, write=not module.check_mode))
    except Refused as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
