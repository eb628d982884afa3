# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The addresses of external hosts, from the inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: external_addresses
short_description: The addresses of external hosts
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Builds the option O(heddle.ovn.reachability#module:external) of the reachability module from an inventory.
options:
  _input:
    description: Variables by host, like C(hostvars). Addresses are in C(heddle_addresses); hosts without are left out.
    type: dict
    required: true
  names:
    description: The hosts.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show the external hosts
  ansible.builtin.debug:
    msg: "{{ hostvars | heddle.ovn.external_addresses(groups['heddle_external']) }}"
"""

RETURN = r"""
_value:
  description: A list of addresses by host.
  type: dict
"""


def external_addresses(hostvars: dict, names: list) -> dict:
    """Return the addresses of each host that has some."""
    found = {name: list(hostvars[name].get("heddle_addresses") or []) for name in names}
    return {name: addresses for name, addresses in found.items() if addresses}


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"external_addresses": external_addresses}
