# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Combines the audits of all hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: audit_report
short_description: Combine the audits of all hosts
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description: Combines the results of M(heddle.ovn.audit) of all hosts and determines whether the audit passed.
options:
  _input:
    description: The module's result by host. A host that did not answer is left out.
    type: dict
    required: true
  hosts:
    description: Names of all hosts; the missing ones are named.
    type: list
    elements: str
    required: true
  intended:
    description: Digest of the plan that the stored manifests make, if known.
    type: str
  host_plans:
    description:
      - Digest of each host's part of the plan that the stored manifests make, as M(heddle.ovn.resource_info) returns
        them, if known. Hosts with another one are a problem.
    type: dict
  foreign_fails:
    description: Whether objects that are not Heddle's make the audit fail.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Evaluate the audits
  ansible.builtin.set_fact:
    report: "{{ {'node1': audited} | heddle.ovn.audit_report(hosts=['node1']) }}"
"""

RETURN = r"""
_value:
  description:
    - C(passed) is true if nothing differs; C(problems) are lines of text, among them hosts that did not answer and
      differing plans; C(hosts) has each host's drift, foreign objects and notes; C(plan) is O(intended).
  type: dict
"""

from datetime import UTC, datetime

from ansible_collections.heddle.ovn.plugins.plugin_utils.deferred import deferred

_evaluated = deferred("module_utils.verify.audit.drift", "audit_report")
_FIELDS = ("drift", "causes", "foreign", "notes", "problems", "checked", "digest")


def _host(result: dict) -> dict:
    if "drift" not in result:
        return {"error": str(result.get("msg", "it could not be compared"))}
    return {name: result[name] for name in _FIELDS}


def audit_report(
    results: dict,
    hosts: list,
    intended: str | None = None,
    host_plans: dict | None = None,
    foreign_fails: bool = False,
) -> dict:
    """Return the report of all hosts."""
    evaluated = {name: _host(result) for name, result in results.items()}
    report = _evaluated(evaluated, list(hosts), intended, host_plans, foreign_fails=foreign_fails)
    return {"time": datetime.now(UTC).isoformat(timespec="seconds"), **report}


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"audit_report": audit_report}
