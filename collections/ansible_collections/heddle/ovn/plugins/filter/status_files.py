# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes the files of the report from the cluster's state."""

from __future__ import annotations

DOCUMENTATION = r"""
name: status_files
short_description: The state of the cluster as files of the report
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Makes C(status.json) and C(status.txt) from the result of M(heddle.ovn.resource_info), for M(heddle.ovn.report).
  - M(heddle.ovn.readiness) returns the same files.
positional: audits
extends_documentation_fragment:
  - heddle.ovn.cluster
"""

EXAMPLES = r"""
- name: Write the status
  heddle.ovn.report:
    directory: report
    files: "{{ cluster | heddle.ovn.status_files(audits) }}"
"""

RETURN = r"""
_value:
  description: The text of each file by its name.
  type: dict
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"status_files": deferred("module_utils.operations.status_files", "status_files")}
