# SPDX-License-Identifier: Apache-2.0
"""What hosts found, put together, and what of it is a problem of a plan."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.filter.node_descriptions import node_descriptions
from ansible_collections.heddle.ovn.plugins.filter.underlay_due import underlay_due
from ansible_collections.heddle.ovn.plugins.module_utils.agent import underlay
from ansible_collections.heddle.ovn.plugins.module_utils.agent.underlay import (
    largest_packet,
    narrow_paths,
    narrow_underlay,
    watch_task,
)
from ansible_collections.heddle.ovn.plugins.module_utils.underlay.paths import paths_from
from tests.pipeline import THREE_NODES, layer2, namespace, plan_of

TEXT = namespace("red") + layer2("red", "net", "10.0.0.0/24").replace("role: Primary", "role: Primary, mtu: 1350")
SIZES = {"geneve": 1500, "vxlan": 1500}
HOSTS = {
    name: {**host, "paths": {other: SIZES for other in THREE_NODES if other != name}}
    for name, host in THREE_NODES.items()
}  # fmt: skip


def plan(**settings) -> dict:
    return plan_of(TEXT, hosts=HOSTS, settings={"encapsulation_type": "auto", "mtu": 1300, **settings})


def test_what_arrived_counts_although_no_acknowledgement_came_back():
    sent = {"b": {"geneve": 0, "vxlan": 1500}, "c": {"geneve": 1500, "vxlan": 1500}, "d": {"geneve": 0, "vxlan": 0}}
    received = {"b": {"a": {"geneve": 320}}, "c": {}}
    assert paths_from("a", sent, received) == {
        "b": {"geneve": 320, "vxlan": 1500}, "c": {"geneve": 1500, "vxlan": 1500},
    }  # fmt: skip


def test_descriptions_have_the_paths_of_hosts_that_took_part_to_the_end():
    variables = {
        name: {
            "heddle_encap_ips": [], "underlay_started": {"problems": {"vxlan": "taken"}},
            "underlay_measured": {"sent": {"a": SIZES, "b": SIZES, "c": SIZES}},
            "underlay_finished": {"received": {}} if name != "c" else {"failed": True},
        }
        for name in "abc"
    }  # fmt: skip
    found = node_descriptions(variables, list("abc"))
    assert found["a"]["paths"] == {"a": SIZES, "b": SIZES}
    assert found["a"]["path_problems"] == {"vxlan": "taken"}
    assert (found["c"]["paths"], found["c"]["path_problems"]) == (None, None)
    assert node_descriptions({"a": {"heddle_encap_ips": []}}, ["a"])["a"]["paths"] is None


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, False),
        ({"chassis_facts": {"datapath": "system", "planned": False}}, True),
        ({"chassis_facts": {"datapath": "none", "planned": False}}, False),
        ({"chassis_facts": {"datapath": "system", "planned": False}, "heddle_encapsulation_type": "vxlan"}, False),
        ({"heddle_probe_underlay": "yes"}, True),
        ({"chassis_described": None}, False),
    ],
)
def test_when_paths_are_measured(changes, due):
    known = {"chassis_described": {"datapath": "system", "planned": True}, "heddle_encapsulation_type": "auto"}
    assert underlay_due({"a": known, "b": {**known, **changes}}, ["a", "b"]) is due


def test_hosts_check_what_the_largest_network_sends():
    assert largest_packet(plan()) == 1350 + 58
    task = watch_task(plan(), "node2", "eth1")
    assert (task.ceiling, task.kinds, task.may_bind) == (1408, ("geneve",), False)
    assert set(task.peers) == set(THREE_NODES)
    assert (
        task.token
        == watch_task(plan(), "node1", "eth7").token
        != watch_task({**plan(), "deployment": "x"}, "node1", "").token
    )
    assert watch_task(plan(encapsulation_type="geneve"), "node2", "eth1") is None
    assert "underlay_probes" not in plan_of(
        TEXT, hosts={"node1": HOSTS["node1"]}, settings={"encapsulation_type": "auto"}
    )


def test_a_path_that_shrank_is_named_with_its_size(tmp_path):
    report = tmp_path / "underlay.json"
    assert narrow_paths(plan(), str(report)) == []
    entries = {"node1": 1408, "node2": 1400, "node3": 0, "gone": 0}
    report.write_text(json.dumps({name: {"size": size, "needed": 1408} for name, size in entries.items()}))
    assert narrow_paths(plan(), str(report)) == [
        "path to node2: geneve (UDP 6081) packets of up to 1400 bytes get through, networks send 1408; raise its MTU, "
        "or lower that of networks by 8",
        "path to node3: no geneve (UDP 6081) packet is answered; let the port through in both directions",
    ]
    assert narrow_paths(plan(encapsulation_type="geneve"), str(report)) == []


def test_a_host_whose_underlay_shrank_says_so(monkeypatch):
    own, needed = plan(), largest_packet(plan())
    for mtu, lines in {None: 0, needed: 0, needed - 8: 1}.items():
        monkeypatch.setattr(underlay, "smallest_mtu", lambda _addresses, mtu=mtu: mtu)
        assert len(narrow_underlay(own, "node1")) == lines
    assert narrow_underlay(own, "node1") == [
        f"underlay: its MTU is {needed - 8}, networks send packets of up to {needed} bytes; raise it on this host, or "
        "lower that of networks by 8"
    ]
    alone = {**own, "nodes": {"node1": own["nodes"]["node1"]}}
    assert narrow_underlay(alone, "node1") == []
