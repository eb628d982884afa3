#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read and validate manifests on the control node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: manifest
short_description: Read and validate manifests
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Reads manifests of the kinds C(Namespace), C(UserDefinedNetwork), C(ClusterUserDefinedNetwork), C(Workload) and
    C(NetworkAttachmentDefinition) and validates each one and all of them together.
  - Rules that depend on stored objects are checked by M(heddle.ovn.resource).
  - All problems are reported at once, each with file, document, field, rule and remedy. Nothing is written.
  - Always runs on the control node, which has the manifests, whatever host the task is for.
extends_documentation_fragment:
  - heddle.ovn.attributes.info
attributes:
  action:
    description: This is an action plugin, so no code is sent to a host.
    support: full
options:
  files:
    description: The manifests' texts by file, as the P(heddle.ovn.manifest#lookup) lookup returns them.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the file, for messages.
        type: str
        required: true
      text:
        description: Content of the file. Either this or O(files[].problem) is required.
        type: str
      problem:
        description: Why the file has no text; it is reported with all other problems.
        type: dict
        suboptions:
          line:
            description: Line in the file; 0 if not known.
            type: int
            default: 0
          rule:
            description: What is wrong.
            type: str
            required: true
          remedy:
            description: What to do.
            type: str
            default: ""
  nodes:
    description: Names of the hosts that workloads may be on.
    type: list
    elements: str
    required: true
  settings:
    description: Cluster-wide settings, as for M(heddle.ovn.resource).
    type: dict
    default: {}
seealso:
  - module: heddle.ovn.resource
"""

EXAMPLES = r"""
- name: Read the manifests
  heddle.ovn.manifest:
    files: "{{ lookup('heddle.ovn.manifest', 'manifests/') }}"
    nodes: "{{ groups['heddle_nodes'] }}"
  delegate_to: localhost
  register: manifests
"""

RETURN = r"""
document:
  description: The valid manifests, compressed and base64-encoded, for M(heddle.ovn.resource).
  returned: success
  type: str
  sample: eJyLjgUAARUAuQ==
count:
  description: Number of manifests.
  returned: success
  type: int
  sample: 12
problems:
  description: One line for each mistake.
  returned: failure
  type: list
  elements: str
  sample: ["red.yml:7 (document 2, UserDefinedNetwork red/red): spec.layer3.subnets[0].cidr: CIDR is invalid; ..."]
"""
