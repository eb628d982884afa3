# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module by the program of the host where that is possible."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import (
    REACHABILITY_ARGUMENTS,
    REACHABILITY_REQUIRED_IF,
)
from ansible_collections.heddle.ovn.plugins.plugin_utils.program_call import ProgramCall


class ActionModule(ProgramCall):
    """The action of the module `reachability`."""

    arguments = REACHABILITY_ARGUMENTS
    required_if = REACHABILITY_REQUIRED_IF

    def _starts_process(self, params: dict) -> bool:
        """The responder runs until it is stopped, also when the service is restarted meanwhile."""
        return params["state"] == "started"
