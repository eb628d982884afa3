# SPDX-License-Identifier: Apache-2.0
"""A MeshNetwork from its manifest to the plan, to the rows of a host, and to the configuration of its daemon."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import check_update, read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.configuration import (
    ConfigurationError,
    configuration_of,
    peer_name,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.mesh import mesh_ports, render_mesh_bridge
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.vswitch import render_workload_ports
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.rehearsal import unrenderable
from tests.pipeline import namespace, nodes, plan_of, workload

MESH = (
    namespace("red", primary=False)
    + "---\napiVersion: heddle.dev/v1\nkind: MeshNetwork\nmetadata: {name: net, namespace: red}\n"
    + 'spec: {role: Secondary, mtu: 1300, subnets: [10.9.0.0/24, "fd00:9::/64"]}\n'
)
MANIFESTS = MESH + workload("red", "a", "node1", "net") + workload("red", "b", "node2", "net")


def test_plan_has_the_network_on_all_nodes():
    plan = plan_of(MANIFESTS)
    network = plan["networks"]["red_net"]
    assert (network["topology"], network["role"], network["mtu"]) == ("Mesh", "Secondary", 1300)
    assert network["nodes"] == ["node1", "node2", "node3"]
    assert network["tunnel_keys"] == []
    interface = plan["workloads"]["red/a"]["interfaces"][1]
    assert (interface["name"], interface["addresses"]) == ("net1", ["10.9.0.1/24", "fd00:9::1/64"])
    assert not unrenderable(plan)


def test_ovn_does_not_know_the_network():
    plan, without = plan_of(MANIFESTS), plan_of(MESH.partition("---\napiVersion: heddle.dev")[0])
    names = {row.key for row in render_northbound(plan, "node1")} - {
        row.key for row in render_northbound(without, "node1")
    }
    assert not [name for name in names if "net" in name]
    ports = {row.key for row in render_workload_ports(plan, "node1")}
    assert not ports & set(mesh_ports(plan, "node1")["red_net"])


def test_bridge_of_a_host():
    rows = {(row.table, row.key): row for row in render_mesh_bridge(plan_of(MANIFESTS), "node1", "netdev")}
    assert rows["Bridge", "br-mesh"].columns["fail_mode"] == "secure"
    assert rows["Interface", "heddle-vxlan"].columns["options"] == {
        "remote_ip": "flow", "local_ip": "198.18.1.11", "key": "flow", "dst_port": "6784",
    }  # fmt: skip
    (port,) = mesh_ports(plan_of(MANIFESTS), "node1")["red_net"]
    assert ("Port", port) in rows
    # A fleet without such a network has nothing of it.
    assert render_mesh_bridge(plan_of(namespace("red", primary=False)), "node1", "netdev") == []
    assert configuration_of(plan_of(namespace("red", primary=False)), "node1") is None


def test_configuration_of_a_host():
    plan = plan_of(MANIFESTS)
    found = configuration_of(plan, "node2")
    assert (found.name, found.address, found.mtu) == (peer_name("node2"), "198.18.1.12", 1300)
    assert {peer.node: peer.address for peer in found.peers.values()} == {
        "node1": "198.18.1.11", "node3": "198.18.1.13",
    }  # fmt: skip
    assert found.neighbours == frozenset(found.peers)
    assert found.networks == {plan["networks"]["red_net"]["id"]: mesh_ports(plan, "node2")["red_net"]}
    with pytest.raises(ConfigurationError, match="no node node9"):
        configuration_of(plan, "node9")


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, {"node2", "node3"}),
        ({"node1": ["node2"]}, {"node2"}),
        ({"node3": ["node2"]}, {"node2"}),
        ({"node1": ["node3"], "node3": ["node2"]}, set()),
    ],
)
def test_neighbours_are_those_that_both_hosts_name(chosen, expected):
    hosts = nodes("node1", "node2", "node3")
    for name, neighbours in chosen.items():
        hosts[name]["mesh_neighbours"] = neighbours
    found = configuration_of(plan_of(MANIFESTS, hosts=hosts), "node1")
    assert {found.peers[name].node for name in found.neighbours} == expected
    # Relays have tunnels to any host that is in the plan.
    assert len(found.peers) == 2


def test_networks_are_immutable_but_for_encryption():
    (*_others, stored), _problems = read_manifests([("a.yml", MESH)])
    (*_others, changed), _problems = read_manifests([("a.yml", MESH.replace("1300", "1400"))])
    assert check_update(stored, stored) == []
    (problem,) = check_update(stored, changed)
    assert "MeshNetwork is immutable: mtu changed" in str(problem)
    (*_others, sealed), problems = read_manifests([("a.yml", MESH.replace("mtu:", "encryption: esp, mtu:"))])
    assert problems == []
    assert sealed.spec["encryption"] == "esp"
    assert check_update(stored, sealed) == check_update(sealed, stored) == []


def test_one_encrypted_network_encrypts_the_mesh():
    hosts = nodes("node1", "node2")
    assert not configuration_of(plan_of(MANIFESTS, hosts=hosts), "node1").encrypted
    assert configuration_of(
        plan_of(MANIFESTS.replace("mtu:", "encryption: esp, mtu:", 1), hosts=hosts), "node1"
    ).encrypted
