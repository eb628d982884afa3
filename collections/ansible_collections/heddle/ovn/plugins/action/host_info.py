# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module by the program of the host where that is possible."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import HOST_INFO_ARGUMENTS
from ansible_collections.heddle.ovn.plugins.plugin_utils.program_call import ProgramCall


class ActionModule(ProgramCall):
    """The action of the module `host_info`."""

    arguments = HOST_INFO_ARGUMENTS
