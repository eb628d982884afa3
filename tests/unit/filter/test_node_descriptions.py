# SPDX-License-Identifier: Apache-2.0
"""What a node is described by, with and without a report of the host."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.filter.node_descriptions import node_descriptions


def test_description_of_a_host_that_reported_and_of_one_that_did_not():
    facts = {"chassis": "c", "gateway": {"bridge": "br-ex"}, "underlay_mtu": 1500, "kernel_lacks": [], "changed": False,
             "other_addresses": {"eth3": ["203.0.113.11/24"]}, "held_addresses": ["198.18.2.100"],
             "kept_plan": {"deployment": "heddle", "revision": 7},
             "name_servers": ["198.51.100.53"]}  # fmt: skip
    hostvars = {
        "n1": {
            "heddle_encap_ips": ["198.18.1.11"], "heddle_addresses": ["198.18.2.11"],
            "heddle_node_labels": {"rack": "a"}, "chassis_facts": facts,
        },
        "n2": {"heddle_encap_ips": ["198.18.1.12"], "chassis_facts": {"unreachable": True}},
        "other": {},
    }  # fmt: skip
    assert node_descriptions(hostvars, ["n1", "n2"]) == {
        "n1": {
            "chassis": "c", "gateway": {"bridge": "br-ex"}, "underlay_mtu": 1500, "kernel_lacks": [],
            "other_addresses": {"eth3": ["203.0.113.11/24"]}, "held_addresses": ["198.18.2.100"],
             "kept_plan": {"deployment": "heddle", "revision": 7},
            "name_servers": ["198.51.100.53"], "encap_ips": ["198.18.1.11"], "addresses": ["198.18.2.11"],
            "labels": {"rack": "a"}, "mesh_neighbours": [], "paths": None, "path_problems": None,
        },
        "n2": {
            "chassis": None, "gateway": None, "underlay_mtu": None, "kernel_lacks": None,
            "other_addresses": None, "name_servers": None, "held_addresses": [], "kept_plan": None,
            "encap_ips": ["198.18.1.12"], "addresses": [], "labels": {}, "mesh_neighbours": [],
            "paths": None, "path_problems": None,
        },
    }  # fmt: skip


def test_a_host_that_differs_from_the_inventory_keeps_what_the_state_has():
    facts = {"chassis": "c", "gateway": {"bridge": "br-ex"}, "underlay_mtu": 1500, "differences": []}
    described = {"heddle_encap_ips": ["198.18.1.11"], "chassis_described": facts}
    assert node_descriptions({"n1": described}, ["n1"])["n1"]["chassis"] == "c"
    described["chassis_described"] = {**facts, "differences": ["create Open_vSwitch Bridge br-ex"]}
    assert node_descriptions({"n1": described}, ["n1"])["n1"]["chassis"] is None
    # install.yml in the same run has made the host as the inventory has it.
    described["chassis_facts"] = {"chassis": "c"}
    assert node_descriptions({"n1": described}, ["n1"])["n1"]["chassis"] == "c"


def test_a_node_without_tunnel_addresses_is_an_error():
    with pytest.raises(KeyError, match="heddle_encap_ips"):
        node_descriptions({"n1": {}}, ["n1"])
