# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What of the inventory contradicts a host's interfaces and addresses."""

from __future__ import annotations

DOCUMENTATION = r"""
name: network_problems
short_description: What of the inventory contradicts a host's interfaces and addresses
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - Compares the inventory's variables of a host with its interfaces and addresses, before the host is changed.
  - Each interface must exist, and each next hop must be in a subnet of the uplink.
options:
  _input:
    description: What C(ip -json address) printed on the host. If it printed nothing of that form, nothing is compared.
    type: str
    required: true
  host:
    description: Name of the host, for the messages.
    type: str
    required: true
  variables:
    description: The host's variables by name.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if an interface is missing
  ansible.builtin.assert:
    that: addresses.stdout | heddle.ovn.network_problems(inventory_hostname, variables) == []
"""

RETURN = r"""
_value:
  description: One line for each mistake, with the remedy.
  type: list
  elements: str
"""

from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.host_network import network_problems


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"network_problems": lambda text, host, variables: network_problems(host, text, variables)}
