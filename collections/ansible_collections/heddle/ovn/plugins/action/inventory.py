# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Validates the inventory on the control node, in Ansible's own process; contacts no host."""

from __future__ import annotations

import sys

from ansible.plugins.action import ActionBase
from ansible.release import __version__ as ansible_version

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


class ActionModule(ActionBase):
    """Calls the check in plugin_utils/inventory."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp=None, task_vars=None):
        """Return the number of hosts, or all mistakes."""
        result = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=_ARGUMENTS)
        variables = read_variables()
        fleet = read_fleet(task_vars, self._loader, variables)
        mistakes = [
            *control_mistakes(ansible_version, sys.version_info, arguments["packages"]),
            *inventory_mistakes(fleet, variables, arguments["allowed"]),
        ]
        problems = lines(mistakes, fleet.groups)
        if problems:
            msg = f"{len(problems)} problem(s) in the inventory, no host was contacted:\n" + "\n".join(problems)
            return {**result, "failed": True, "changed": False, "msg": msg, "problems": problems}
        return {**result, "changed": False, "hosts": len(fleet.hosts(*GROUPS))}
