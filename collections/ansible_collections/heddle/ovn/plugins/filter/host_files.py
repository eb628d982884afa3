# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A JSON file for each host, for the module that writes a report."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_files
short_description: A JSON file for each host
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Makes the option O(heddle.ovn.report#module:files) of documents by host, as P(heddle.ovn.host_results#filter)
    returns them.
options:
  _input:
    description: A document by host.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write what was found on each host
  heddle.ovn.report:
    directory: report
    files: "{{ hostvars | heddle.ovn.host_results(groups['heddle_nodes'], 'found') | heddle.ovn.host_files }}"
"""

RETURN = r"""
_value:
  description: The text of each file by its name, C(host-HOST.json).
  type: dict
  sample: {"host-node1.json": "{}\n"}
"""

import json


def host_files(documents: dict) -> dict[str, str]:
    """Return the text of each file by its name."""
    return {f"host-{name}.json": f"{json.dumps(document)}\n" for name, document in documents.items()}


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"host_files": host_files}
