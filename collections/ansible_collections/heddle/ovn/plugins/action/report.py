# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes reports of the control node in Ansible's own process, without starting a module."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from ansible_collections.heddle.ovn.plugins.module_utils.common.files.report_files import (
    REPORT_ARGUMENTS,
    Refused,
    report_result,
)


class ActionModule(ActionBase):
    """The action of the module `report`; on another host, or as another user, the module runs."""

    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp=None, task_vars=None):
        """Write what differs."""
        result = super().run(tmp, task_vars)
        if self._connection.transport != "local" or self._play_context.become or self._task.async_val:
            return {**result, **self._execute_module(task_vars=task_vars, wrap_async=self._task.async_val)}
        _validation, params = self.validate_argument_spec(argument_spec=REPORT_ARGUMENTS)
        try:
            return {**result, **report_result(params, write=not self._task.check_mode)}
        except Refused as error:
            return {**result, "failed": True, "changed": False, "msg": str(error)}
