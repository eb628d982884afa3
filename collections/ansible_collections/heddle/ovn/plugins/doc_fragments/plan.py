# SPDX-License-Identifier: Apache-2.0
"""Options of modules that apply the plan of a host."""

from __future__ import annotations


class ModuleDocFragment:
    """Options for the plan and the node."""

    DOCUMENTATION = r"""
options:
  plan:
    description: File with the host's part of the plan, as the M(heddle.ovn.zone) module stores it.
    type: path
    default: /var/lib/heddle/plan.json
  document:
    description:
      - The plan itself, as returned by the M(heddle.ovn.resource) module. It has precedence over O(plan).
      - For a host that does not have it yet, as in check mode.
    type: str
  node:
    description: Name of the node in the plan.
    type: str
    required: true
"""
