# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What inventory and hosts say about each node, as the state keeps it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_descriptions
short_description: What inventory and hosts say about each node
version_added: 0.4.0
author:
  - Heddle maintainers (@heddle)
description:
  - Makes the option O(heddle.ovn.resource#module:nodes) of the resource module from the variables of all hosts.
  - What a host reported is taken from C(chassis_facts), the result of M(heddle.ovn.chassis), or else from
    C(chassis_described), that of M(heddle.ovn.chassis_info). A host that did not report in this run, or differs from
    the inventory, has no values there, and the state keeps those that it has.
  - C(paths) and C(path_problems) are made of the results of M(heddle.ovn.underlay_probe) in C(underlay_started),
    C(underlay_measured) and C(underlay_finished) where these are defined.
options:
  _input:
    description: The variables of all hosts.
    type: dict
    required: true
  nodes:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Admit the manifests
  heddle.ovn.resource:
    resources: "{{ manifests.document }}"
    nodes: "{{ hostvars | heddle.ovn.node_descriptions(groups['heddle_nodes']) }}"
"""

RETURN = r"""
_value:
  description: A description by node.
  type: dict
"""

from ansible_collections.heddle.ovn.plugins.module_utils.underlay.paths import paths_from

REPORTED = ("chassis", "gateway", "underlay_mtu", "kernel_lacks", "other_addresses", "name_servers")


def node_descriptions(hostvars: dict, nodes: list) -> dict:
    """Return a description of each node: REPORTED (None if not reported), and what the inventory says."""
    variables = {name: hostvars[name] for name in nodes}
    received = {
        name: one["underlay_finished"]["received"]
        for name, one in variables.items()
        if "received" in one.get("underlay_finished", {})
    }
    return {name: {**_description(one), **_paths(name, one, received)} for name, one in variables.items()}


def _paths(name: str, variables: dict, received: dict) -> dict:
    """Return what gets through from a node and why nothing gets to it, None where that was not measured."""
    sent = variables.get("underlay_measured", {}).get("sent")
    measured = sent is not None and name in received
    problems = variables.get("underlay_started", {}).get("problems")
    return {
        "paths": paths_from(name, sent, received) if measured else None,
        "path_problems": problems if measured else None,
    }


def _description(variables: dict) -> dict:
    facts = variables.get("chassis_facts") or variables.get("chassis_described") or {}
    held, kept = facts.get("held_addresses") or [], facts.get("kept_plan")
    if facts.get("differences"):
        facts = {}
    return {
        **{key: facts.get(key) for key in REPORTED},
        # Not kept by the state: what the host has now.
        "held_addresses": held,
        "kept_plan": kept,
        "encap_ips": variables["heddle_encap_ips"],
        "addresses": variables.get("heddle_addresses") or [],
        "labels": variables.get("heddle_node_labels") or {},
        "mesh_neighbours": variables.get("heddle_mesh_neighbours") or [],
    }


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"node_descriptions": node_descriptions}
