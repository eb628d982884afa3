# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which hosts have addresses that they should have given up."""

from __future__ import annotations

DOCUMENTATION = r"""
name: unreleased_hosts
short_description: Which hosts have addresses that they should have given up
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - Of the hosts from which addresses move, finds those that answer and have not given up theirs, with the reason.
  - A host that does not answer counts as one that is down, whose addresses other hosts take.
options:
  _input:
    description: The variables of all hosts. C(zone_released) is the result of the step that gives addresses up.
    type: dict
    required: true
  moved:
    description: The addresses that move, each with its former host.
    type: dict
    required: true
  hosts:
    description: The hosts that are still in the play.
    type: list
    elements: str
    required: true
  absent:
    description: Results of a task that connected to former hosts which had left the play before, one C(item) each.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Find the hosts that have not given up their addresses
  ansible.builtin.set_fact:
    unreleased: "{{ hostvars | heddle.ovn.unreleased_hosts({'198.18.2.100': 'node1'}, ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: The reason by host.
  type: dict
"""

_LEFT = "it failed before in this run, for the reason shown above"


def unreleased_hosts(hostvars: dict, moved: dict, hosts: list, absent: list = ()) -> dict:
    """Return why hosts from which addresses move have not given them up."""
    found = {one["item"]: _LEFT for one in absent if not one.get("unreachable")}
    for host in moved.values():
        # Absent hosts may have a result of an earlier move.
        if host not in found and host in hosts:
            released = hostvars[host].get("zone_released") or {}
            if "changes" not in released:
                found[host] = released.get("msg") or "the step did not run"
    return found


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"unreleased_hosts": unreleased_hosts}
