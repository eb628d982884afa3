# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Actions that run a module by the program `heddle-host`, which `install.yml` put on the host.

Ansible would transfer the module with all that it imports and start it, on each host and in each run, which takes
longer than most modules work. The program has the same code. Where it is missing, or made of other sources than those
of the control node, the module is transferred as ever.
"""

from __future__ import annotations

import json

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.heddle.ovn.plugins.module_utils.program.zipapp import source_version

PROGRAM = "/usr/local/sbin/heddle-host"
# Read once, before Ansible starts a process for each host and task.
VERSION = source_version()


class ProgramCall(ActionBase):
    """Base of the actions; `arguments` is the module's argument spec, `required_if` as in AnsibleModule."""

    _supports_check_mode = True
    _supports_async = True
    arguments: dict = {}
    required_if: list = []

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module."""
        result = super().run(tmp, task_vars)
        if not self._needs_module():
            _validation, params = self.validate_argument_spec(
                argument_spec=self.arguments, required_if=self.required_if
            )
            found = self._by_program(params)
            if found is not None:
                return {**result, **found}
        return {**result, **self._execute_module(task_vars=task_vars, wrap_async=self._task.async_val)}

    def _needs_module(self) -> bool:
        """Whether the task has what only Ansible's own way to start a module provides.

        These are background tasks, an environment, and paths that are completed on the host.
        """
        paths = [self._task.args.get(name) for name, option in self.arguments.items() if option["type"] == "path"]
        return bool(
            self._task.async_val
            or self._compute_environment_string().strip()
            or any(set(str(path)) & set("~$") for path in paths if path)
        )

    def _starts_process(self, params: dict) -> bool:
        """Whether the call starts a process that lasts, which the host's service would take along when it ends."""
        del params
        return False

    def _by_program(self, params: dict) -> dict | None:
        """Return the result of the host's program; None where that is not the one."""
        request = {
            "program": VERSION,
            "module": self._task.action.rpartition(".")[2],
            "params": params,
            "check_mode": self._task.check_mode,
            "diff": self._task.diff,
        }
        try:
            verb = "call-apart" if self._starts_process(params) else "call"
            done = self._low_level_execute_command(f"{PROGRAM} {verb}", in_data=json.dumps(request).encode())
        except AnsibleConnectionFailure:
            raise
        except AnsibleError:
            # A connection that passes no input to commands.
            return None
        lines = done["stdout"].splitlines()
        try:
            reply = json.loads(lines[-1]) if lines and done["rc"] == 0 else {}
        except ValueError:
            return None
        return reply.get("result") if reply.get("program") == VERSION else None
