# SPDX-License-Identifier: Apache-2.0
"""Networks whose packets do not fit into a tunnel."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.types.encapsulation import GENEVE, VXLAN
from tests.pipeline import THREE_NODES, decide, namespace

RED = """
apiVersion: v1
kind: Namespace
metadata: {{name: red, labels: {{k8s.ovn.org/primary-user-defined-network: ""}}}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: net, namespace: red}}
spec: {{topology: Layer2, layer2: {{role: Primary, subnets: ['10.0.0.0/24'], mtu: {mtu}}}}}
"""


def hosts(address: str = "198.18.1.1", mtu: int = 1500) -> dict:
    """One host of three has a smaller underlay than the others."""
    return {
        name: {**host, "encap_ips": [address.replace("1.1", f"1.{number}")],
               "underlay_mtu": mtu if name == "node2" else 9000}
        for number, (name, host) in enumerate(THREE_NODES.items(), start=1)
    }  # fmt: skip


def problems(size: int, nodes: dict, **settings) -> list[str]:
    return [str(one) for one in decide(RED.format(mtu=size), hosts=nodes, settings=settings)[1]]


def test_overhead_equals_the_headers():
    assert GENEVE.overhead == {4: 58, 6: 78}
    assert VXLAN.overhead == {4: 50, 6: 70}


@pytest.mark.parametrize(("address", "room"), [("198.18.1.1", 1442), ("fd00:6864:1::1.1.1.1", 1422)])
def test_the_narrowest_underlay_decides(address, room):
    nodes = hosts(address)
    assert not problems(room, nodes)
    (problem,) = problems(room + 1, nodes)
    assert f"spec.mtu: {room + 1} does not fit into the tunnels of node2, whose underlay has room for {room}" in problem
    assert f"use {room} or less, or raise the underlay's MTU on all hosts" in problem


def test_an_underlay_that_shrinks_keeps_no_change_from_the_others():
    """The host says what its underlay does not carry; what is new must fit."""
    text = RED.format(mtu=1442)
    before, refused = decide(text, hosts=hosts())[:2]
    assert not refused
    shrunk = hosts(mtu=1300)
    more = namespace("blue", primary=False)
    assert not decide(text + more, before, hosts=shrunk)[1]
    (problem,) = decide(text + "---" + RED.format(mtu=1441).replace("red", "green"), before, hosts=shrunk)[1]
    assert "spec.mtu: 1441 does not fit into the tunnels of node2, whose underlay has room for 1242" in str(problem)


def test_a_new_host_must_carry_the_networks_that_are_there():
    text = RED.format(mtu=1442)
    everyone = hosts()
    before = decide(text, hosts={name: host for name, host in everyone.items() if name != "node2"})[0]
    assert not decide(text, before, hosts=everyone)[1]
    problems = decide(text, before, hosts=hosts(mtu=1300))[1]
    assert len(problems) == 2
    assert all("does not fit into the tunnels of node2" in str(one) for one in problems)


def test_default_network_has_the_same_limit():
    (problem,) = problems(1280, hosts(mtu=1450))
    assert "Settings" in problem
    assert "mtu: 1400 does not fit into the tunnels of node2" in problem
    assert not problems(1280, hosts(mtu=1450), mtu=1392)


def test_host_without_reported_mtu_does_not_count():
    assert not problems(9000, THREE_NODES)


def mesh(**spec) -> str:
    return (
        "---\napiVersion: heddle.dev/v1\nkind: MeshNetwork\nmetadata: {name: woven, namespace: red}\n"
        f"spec: {json.dumps({'role': 'Secondary', 'subnets': ['10.9.0.0/24'], **spec})}\n"
    )


def test_encryption_of_one_network_leaves_less_room_to_all_of_the_mesh():
    settings = {"hosts": hosts("198.18.1.1"), "settings": {"mtu": 1409}}
    text = namespace("red", primary=False) + mesh(mtu=1410)
    assert not decide(text, **settings)[1]
    (problem,) = decide(text + mesh(encryption="esp").replace("woven", "other"), **settings)[1]
    assert "MeshNetwork" in str(problem)
    assert "1410 does not fit into the encrypted tunnels of node2, whose underlay has room for 1409" in str(problem)
    # What has no MTU of its own takes the setting's.
    settings["settings"] = {"mtu": 1440}
    (problem,) = decide(namespace("red", primary=False) + mesh(encryption="esp"), **settings)[1]
    assert "1440 does not fit into the encrypted tunnels" in str(problem)


def test_encryption_is_refused_where_it_leaves_too_little_room_to_a_network_that_is_there():
    settings = {"hosts": hosts("198.18.1.1"), "settings": {"mtu": 1409}}
    text = namespace("red", primary=False) + mesh(mtu=1410)
    before, refused = decide(text, **settings)
    assert not refused
    (problem,) = decide(text + mesh(encryption="esp").replace("woven", "other"), before, **settings)[1]
    assert "1410 does not fit into the encrypted tunnels of node2" in str(problem)


def test_the_first_report_of_an_underlay_counts_as_a_new_host():
    before = decide(RED.format(mtu=1442), hosts={**hosts(), "node2": {**hosts()["node2"], "underlay_mtu": None}})[0]
    problems = decide(RED.format(mtu=1442), before, hosts=hosts(mtu=1300))[1]
    assert len(problems) == 2


def test_the_mesh_needs_more_room_than_ovn_with_vxlan():
    """Its frames may have a VLAN tag, and its VXLAN is its own."""
    settings = {"hosts": hosts("198.18.1.1"), "settings": {"mtu": 1450, "encapsulation_type": "vxlan"}}
    text = namespace("red", primary=False)
    assert not decide(text, **settings)[1]
    (problem,) = decide(text + mesh(), **settings)[1]
    assert "1450 does not fit into the tunnels of node2, whose underlay has room for 1442" in str(problem)
