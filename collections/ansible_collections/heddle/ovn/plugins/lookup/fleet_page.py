# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ansible lookup: the page of the fleet."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_page
author:
  - Heddle maintainers (@heddle)
short_description: The page of the fleet
version_added: 0.4.0
description:
  - Makes one HTML page, without references to other hosts, of the results that playbooks left in a directory. It has
    hosts, networks and workloads, what needs attention, and the last verify, audit, upgrade and migration.
  - A result that is missing or cannot be read is stated on the page.
options:
  _terms:
    description: Directory of the report on the control node.
    type: list
    elements: str
    required: true
  packed:
    description: Files that the same task writes into the directory, as O(heddle.ovn.report#module:packed) of it.
    type: str
    default: ""
    version_added: 0.5.0
"""

EXAMPLES = r"""
- name: Write the page of the fleet
  heddle.ovn.report:
    directory: report
    files: {index.html: "{{ lookup('heddle.ovn.fleet_page', 'report') }}"}
"""

RETURN = r"""
_raw:
  description: The page, one for each term.
  type: list
  elements: str
"""

from pathlib import Path

from ansible.plugins.lookup import LookupBase

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import unpack
from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred

fleet_page = deferred("plugin_utils.pages.fleet.page", "fleet_page")


class LookupModule(LookupBase):
    """Makes the page of the results in a directory."""

    def run(self, terms, variables=None, **kwargs):
        """Return one page for each directory."""
        self.set_options(var_options=variables, direct=kwargs)
        packed = self.get_option("packed")
        texts = unpack(packed) if packed else {}
        return [fleet_page(Path(self._loader.path_dwim(str(term))), texts) for term in terms]
