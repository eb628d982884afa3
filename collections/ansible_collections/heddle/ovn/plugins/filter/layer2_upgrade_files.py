# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page of a Layer2 upgrade, for the module that writes a report."""

from __future__ import annotations

DOCUMENTATION = r"""
name: layer2_upgrade_files
short_description: Page and picture of a Layer2 upgrade
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Draws the losses of traffic during an upgrade of Layer2 networks beside its steps, and lists steps, moves and flows.
  - Python's standard library is enough.
options:
  _input:
    description:
      - The results of an upgrade, as the playbook C(heddle.ovn.upgrade_layer2) writes them to C(upgrade_layer2.json) -
        C(survey), C(steps), C(reachability), C(failures), and C(traffic), which P(heddle.ovn.traffic_report#filter)
        returns.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the page
  heddle.ovn.report:
    directory: report
    files: "{{ upgrade | heddle.ovn.layer2_upgrade_files }}"
"""

RETURN = r"""
_value:
  description:
    - The text of each file by its name, C(upgrade_layer2.html) and C(upgrade-losses.svg); nothing when no traffic was
      measured.
  type: dict
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"layer2_upgrade_files": deferred("plugin_utils.pages.layer2_upgrade", "layer2_upgrade_files")}
