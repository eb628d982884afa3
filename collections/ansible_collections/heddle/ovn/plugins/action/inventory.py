# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Validates the inventory on the control node, in Ansible's own process; contacts no host."""

from __future__ import annotations

import os
import sys

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.release import __version__ as ansible_version
from ansible.template import Templar

try:
    # Since ansible-core 2.19 each value has the file and line that it is from.
    from ansible._internal._datatag._tags import Origin
except ImportError:
    Origin = None

from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.check import GROUPS, PREFIX, inventory_mistakes
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.control_node import control_mistakes
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.fleet import CONTROL, Fleet, Unreadable, lines
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
# By these variables of Ansible two hosts are found to be one machine.
_CONNECTION = ("ansible_host", "ansible_port")


class ActionModule(ActionBase):
    """Reads what the inventory has for each host and calls the check in plugin_utils/inventory."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp=None, task_vars=None):
        """Return nothing but that it passed, or all mistakes."""
        result = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=_ARGUMENTS)
        variables = read_variables()
        fleet = self._fleet(task_vars, variables)
        mistakes = [
            *control_mistakes(ansible_version, sys.version_info, arguments["packages"]),
            *inventory_mistakes(fleet, variables, arguments["allowed"]),
        ]
        problems = lines(mistakes, fleet.groups)
        if problems:
            msg = f"{len(problems)} problem(s) in the inventory, no host was contacted:\n" + "\n".join(problems)
            return {**result, "failed": True, "changed": False, "msg": msg, "problems": problems}
        return {**result, "changed": False, "hosts": len(fleet.hosts(*GROUPS))}

    def _fleet(self, task_vars: dict, variables: dict[str, dict]) -> Fleet:
        groups = {name: list(hosts) for name, hosts in task_vars["groups"].items()}
        fleet = Fleet(groups, exists=lambda path: os.path.exists(self._loader.path_dwim(path)))
        common = [name for name, option in variables.items() if option["scope"] != "host"]
        control = task_vars["hostvars"].raw_get(CONTROL)
        for host in fleet.hosts(*GROUPS, CONTROL):
            raw = control if host == CONTROL else task_vars["hostvars"].raw_get(host)
            fleet.names[host] = {name: _origin(name, raw[name]) for name in raw if name.startswith(PREFIX)}
            wanted = [
                name for name, option in variables.items()
                if option["scope"] == "host" and host in fleet.hosts(*option["groups"])
            ]  # fmt: skip
            fleet.variables[host] = self._templated(raw, [*wanted, *_CONNECTION])
            for name in common:
                if raw.get(name) != control.get(name):
                    fleet.differing.setdefault(name, []).append(host)
        # With the variables of the play, which an importing playbook may set.
        fleet.common.update(self._templated(task_vars, common))
        return fleet

    def _templated(self, raw: dict, names: list[str]) -> dict:
        templar = Templar(loader=self._loader, variables=raw)
        return {name: _value(templar, raw[name]) for name in names if name in raw}


def _value(templar: Templar, raw):
    if isinstance(raw, bool | int) or raw is None:
        return raw
    try:
        return templar.template(raw)
    except AnsibleError as error:
        return Unreadable(str(error).partition("\n")[0].rstrip("."))


def _origin(name, value) -> str:
    """Return file and line of a value, relative to the working directory where that is shorter."""
    found = Origin and (Origin.get_tag(value) or Origin.get_tag(name))
    if not found:
        return ""
    if not found.path:
        return str(found)
    path = min(found.path, os.path.relpath(found.path), key=len)
    return f"{path}:{found.line_num}" if found.line_num else path
