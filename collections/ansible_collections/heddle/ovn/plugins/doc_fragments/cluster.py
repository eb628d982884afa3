# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Input of the filters that describe the cluster."""

from __future__ import annotations


class ModuleDocFragment:
    """The cluster's state and the audits of its hosts."""

    DOCUMENTATION = r"""
options:
  _input:
    description: The result of M(heddle.ovn.resource_info).
    type: dict
    required: true
  audits:
    description:
      - The result of M(heddle.ovn.audit) by host.
      - Empty for a host that did not answer, C(failed) and C(msg) for one where the plan could not be applied,
        C(asked) false for one that was not asked.
    type: dict
    required: true
"""
