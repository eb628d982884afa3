# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads and validates manifests on the control node, in Ansible's own process, without starting a module."""

from __future__ import annotations

import gc

from ansible.plugins.action import ActionBase

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.operations.preflight import examine

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


class ActionModule(ActionBase):
    """Calls the validation in `operations.preflight`."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp=None, task_vars=None):
        """Return the valid manifests, compressed and base64-encoded, or all problems."""
        result = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=_ARGUMENTS)
        files = [(entry["name"], entry["text"]) for entry in arguments["files"]]
        # This process ends with the task; cyclic garbage collection would take much of its time.
        gc.disable()
        resources, problems = examine(files, arguments["nodes"], arguments["settings"])
        if problems:
            text = "\n".join(problems)
            msg = f"{len(problems)} problem(s), nothing was written:\n{text}"
            return {**result, "failed": True, "changed": False, "msg": msg, "problems": problems}
        return {**result, "changed": False, "document": pack(resources), "count": len(resources)}
