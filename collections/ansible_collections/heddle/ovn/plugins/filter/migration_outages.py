# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Figures of the echoes that were sent during a migration, from the results of all hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: migration_outages
short_description: Outages that echoes saw during a migration
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Combines the figures of M(heddle.ovn.migration_watch) of all hosts, and adds how much longer the outage of each
    address was than QEMU had stopped the virtual machine for.
options:
  _input:
    description: RV(heddle.ovn.migration_watch#module:figures) by host.
    type: dict
    required: true
  downtime_ms:
    description: How long QEMU had stopped the virtual machine, in milliseconds; none if it did not move.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Show the outages
  ansible.builtin.debug:
    msg: "{{ {'node1': watched.figures} | heddle.ovn.migration_outages(52) }}"
"""

RETURN = r"""
_value:
  description: The figures by address, each with C(beyond_downtime_ms).
  type: dict
  sample: {"10.0.0.5": {"sent": 3021, "lost": 12, "longest_gap_ms": 131, "slowest_ms": 9, "beyond_downtime_ms": 79}}
"""


def migration_outages(hosts: dict, downtime_ms: int | None) -> dict[str, dict]:
    """Return the figures of each address; the outage beyond the downtime is never negative."""
    return {
        address: {**figures, "beyond_downtime_ms": max(figures["longest_gap_ms"] - int(downtime_ms or 0), 0)}
        for found in hosts.values()
        for address, figures in found.items()
    }


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"migration_outages": migration_outages}
