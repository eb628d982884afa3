# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a task registered on each of several hosts, by host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_results
short_description: What a task registered on each of several hosts
version_added: 0.3.0
author:
  - Heddle maintainers (@heddle)
description:
  - Collects registered results, for the play that puts those of all hosts together.
  - A host without the result has O(default), or what O(attempt) failed with. Without both it is left out.
options:
  _input:
    description: The variables of all hosts.
    type: dict
    required: true
  hosts:
    description: Names of hosts.
    type: list
    elements: str
    required: true
  name:
    description: The variable that a task registered.
    type: str
    required: true
  before:
    description: A variable that an earlier task registered. It counts for a host without O(name).
    type: str
    version_added: 0.5.0
  attribute:
    description: Which part of the result is wanted; all of it if not given.
    type: str
  default:
    description: What a host has that has no result, or whose result lacks O(attribute).
    type: raw
  reached:
    description: Whether results that only say that a host could not be reached count as none.
    type: bool
    default: false
  attempt:
    description:
      - A variable that a task before registered. Where that failed, C(failed), C(msg) and C(refused) of it stand for a
        host without the result; where it did not, an empty dictionary.
    type: str
  within:
    description:
      - With O(attempt), the hosts of this run; all if empty. Others without the result have C(asked) with the value
        false.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Put the results of all hosts together
  ansible.builtin.set_fact:
    audited: "{{ hostvars | heddle.ovn.host_results(groups['heddle_nodes'], 'heddle_audited', reached=true) }}"
"""

RETURN = r"""
_value:
  description: The result by host.
  type: dict
"""

_NOTHING = object()


def host_results(
    hostvars, hosts, name, attribute=None, default=_NOTHING, reached=False, attempt=None, within=(), before=None
):
    """Return the registered result `name`, or its `attribute`, of each host that has one."""
    found = {}
    for host in hosts:
        variables = hostvars[host]
        result = variables.get(name) or (variables.get(before) if before else None) or _NOTHING
        if result is not _NOTHING and reached and result.get("unreachable"):
            result = _NOTHING
        if result is not _NOTHING and attribute is not None:
            result = result.get(attribute, _NOTHING)
        if result is _NOTHING:
            result = _failed(host, variables.get(attempt) or {}, within) if attempt else default
        if result is not _NOTHING:
            found[host] = result
    return found


def _failed(host: str, tried: dict, within: list) -> dict:
    if within and host not in within:
        return {"asked": False}
    if not tried.get("failed"):
        return {}
    return {"failed": True, "msg": tried.get("msg", ""), "refused": tried.get("refused") or {}}


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"host_results": host_results}
