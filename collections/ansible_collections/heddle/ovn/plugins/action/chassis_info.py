# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module by the program of the host where that is possible."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis.chassis_options import CHASSIS_INFO_OPTIONS
from ansible_collections.heddle.ovn.plugins.plugin_utils.program_call import ProgramCall


class ActionModule(ProgramCall):
    """The action of the module `chassis_info`."""

    arguments = CHASSIS_INFO_OPTIONS
