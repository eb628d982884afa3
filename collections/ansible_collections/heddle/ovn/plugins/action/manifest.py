# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads and validates manifests on the control node, in Ansible's own process, without starting a module."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import canonical, pack
from ansible_collections.heddle.ovn.plugins.plugin_utils.control_node_check import ControlNodeCheck
from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred
from ansible_collections.heddle.ovn.plugins.plugin_utils.program_call import VERSION
from ansible_collections.heddle.ovn.plugins.plugin_utils.validated_manifests import ValidatedManifests

# Imports all that admission needs, which takes longer than to validate the manifests of a small fleet.
_examine = deferred("module_utils.operations.preflight", "examine")
_PROBLEM = {
    "line": {"type": "int", "default": 0},
    "rule": {"type": "str", "required": True},
    "remedy": {"type": "str", "default": ""},
}
_ARGUMENTS = {
    "files": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "text": {"type": "str"},
            "problem": {"type": "dict", "options": _PROBLEM},
        },
        "required_one_of": [["text", "problem"]],
        "mutually_exclusive": [["text", "problem"]],
    },
    "nodes": {"type": "list", "elements": "str", "required": True},
    "settings": {"type": "dict", "default": {}},
}


class ActionModule(ControlNodeCheck):
    """Calls the validation in `operations.preflight`, unless the same manifests were found valid before."""

    arguments = _ARGUMENTS
    refusal = "problem(s), nothing was written"

    def check(self, arguments: dict, variables: dict) -> tuple[list[str], dict]:
        """Return all problems, or the valid manifests, compressed and base64-encoded."""
        unread = [{"file": entry["name"], **entry["problem"]} for entry in arguments["files"] if entry.get("problem")]
        files = [(entry["name"], entry["text"]) for entry in arguments["files"] if not entry.get("problem")]
        kept = ValidatedManifests(VERSION, canonical([files, arguments["nodes"], arguments["settings"]]))
        # The other files alone may have been found valid before.
        found = None if unread else kept.read()
        if found is None:
            resources, problems = _examine(files, arguments["nodes"], arguments["settings"], unread)
            if problems:
                return problems, {}
            found = {"document": pack(resources), "count": len(resources)}
            if not self._task.check_mode:
                kept.keep(found)
        return [], found
