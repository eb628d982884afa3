# SPDX-License-Identifier: Apache-2.0
"""Actions that check something on the control node, in Ansible's own process, and contact no host."""

from __future__ import annotations

import gc

from ansible.plugins.action import ActionBase


class ControlNodeCheck(ActionBase):
    """Calls `check`; a subclass has the arguments of its module, and what the message of a failure begins with."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False
    arguments: dict[str, dict]
    refusal: str

    def check(self, arguments: dict, variables: dict) -> tuple[list[str], dict]:
        """Return all problems, a line each, and what the task returns when there are none."""
        raise NotImplementedError

    def run(self, tmp=None, task_vars=None):
        """Return what the check found."""
        result = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=self.arguments)
        # This process ends with the task; cyclic garbage collection would take much of its time.
        gc.disable()
        problems, found = self.check(arguments, task_vars)
        if problems:
            msg = "\n".join([f"{len(problems)} {self.refusal}:", *problems])
            return {**result, "failed": True, "changed": False, "msg": msg, "problems": problems}
        return {**result, "changed": False, **found}
