# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads and validates manifests on the control node, in Ansible's own process, without starting a module."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.operations.preflight import examine
from ansible_collections.heddle.ovn.plugins.plugin_utils.control_node_check import ControlNodeCheck

_ARGUMENTS = {
    "files": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {"name": {"type": "str", "required": True}, "text": {"type": "str", "required": True}},
    },
    "nodes": {"type": "list", "elements": "str", "required": True},
    "settings": {"type": "dict", "default": {}},
}


class ActionModule(ControlNodeCheck):
    """Calls the validation in `operations.preflight`."""

    arguments = _ARGUMENTS
    refusal = "problem(s), nothing was written"

    def check(self, arguments: dict, variables: dict) -> tuple[list[str], dict]:
        """Return all problems, or the valid manifests, compressed and base64-encoded."""
        files = [(entry["name"], entry["text"]) for entry in arguments["files"]]
        resources, problems = examine(files, arguments["nodes"], arguments["settings"])
        return problems, {} if problems else {"document": pack(resources), "count": len(resources)}
