# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the readiness module needs of audits: of what differs only the network counts, and the rest may be much."""

from __future__ import annotations

DOCUMENTATION = r"""
name: readiness_hosts
short_description: What the readiness module needs of audits
version_added: 0.3.0
author:
  - Heddle maintainers (@heddle)
description:
  - Makes O(_input) the option O(heddle.ovn.readiness#module:hosts).
options:
  _input:
    description:
      - Results of M(heddle.ovn.audit) by host, as P(heddle.ovn.host_results#filter) returns them with C(attempt). An
        empty one is of a host that did not answer.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Record which hosts have the networks
  heddle.ovn.readiness:
    hosts: "{{ audits | heddle.ovn.readiness_hosts }}"
"""

RETURN = r"""
_value:
  description: The option C(hosts) of the module.
  type: dict
"""

_KEPT = {
    "asked": True,
    "failed": False,
    "msg": "",
    "refused": {},
    "unreachable": False,
    "digest": "",
    "problems": [],
    "stopped": [],
    "paths": [],
}


def readiness_hosts(audits: dict) -> dict:
    """Return, for each host, what of its audit the module looks at."""
    return {name: _reduced(audit) if audit else {} for name, audit in audits.items()}


def _reduced(audit: dict) -> dict:
    networks = dict.fromkeys(difference["network"] for difference in audit.get("drift") or [])
    kept = {name: audit.get(name, default) for name, default in _KEPT.items()}
    return {**kept, "drift": [{"network": network} for network in networks]}


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"readiness_hosts": readiness_hosts}
