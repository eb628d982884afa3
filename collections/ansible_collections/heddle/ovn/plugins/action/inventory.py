# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Validates the inventory on the control node, in Ansible's own process; contacts no host."""

from __future__ import annotations

import sys

from ansible.release import __version__ as ansible_version

from ansible_collections.heddle.ovn.plugins.plugin_utils.control_node_check import ControlNodeCheck
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.check import GROUPS, inventory_mistakes
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.control_node import control_mistakes
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.fleet import lines
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.reading import read_fleet
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.variables import read_variables

_ARGUMENTS = {
    "packages": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"type": "str", "required": True}, "requirements": {"type": "str", "required": True}},
    },
    "allowed": {"type": "list", "elements": "str", "default": []},
}


class ActionModule(ControlNodeCheck):
    """Calls the check in plugin_utils/inventory."""

    arguments = _ARGUMENTS
    refusal = "problem(s) in the inventory, no host was contacted"

    def check(self, arguments: dict, variables: dict) -> tuple[list[str], dict]:
        """Return all mistakes, or the number of hosts."""
        known = read_variables()
        fleet = read_fleet(variables, self._loader, known)
        mistakes = [
            *control_mistakes(ansible_version, sys.version_info, arguments["packages"]),
            *inventory_mistakes(fleet, known, arguments["allowed"]),
        ]
        return lines(mistakes, fleet.groups), {"hosts": len(fleet.hosts(*GROUPS))}
