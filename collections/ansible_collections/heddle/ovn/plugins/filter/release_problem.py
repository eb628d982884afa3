# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a host's distribution is not supported."""

from __future__ import annotations

DOCUMENTATION = r"""
name: release_problem
short_description: Why a host's distribution is not supported
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Compares C(/etc/os-release) of a host with the distributions and releases that the roles support.
options:
  _input:
    description: Content of C(/etc/os-release).
    type: str
    required: true
  host:
    description: Name of the host, for the message.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Fail on another distribution
  ansible.builtin.assert:
    that: release.stdout | heddle.ovn.release_problem(inventory_hostname) == ''
"""

RETURN = r"""
_value:
  description: One line with the remedy; empty if the release is supported.
  type: str
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.host_release import release_problem


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"release_problem": lambda text, host: release_problem(host, text)}
