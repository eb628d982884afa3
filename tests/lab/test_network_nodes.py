# SPDX-License-Identifier: Apache-2.0
"""A network comes to a node with its first workload there and leaves with the last one; nothing else changes."""

import shutil

import pytest

from tests.lab.conftest import MANIFESTS, NODES
from tests.lab.test_network_life import SPACE, WORKLOAD, condition_of, kernel, status, unchanged

LAYER2 = """
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: flat}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24, "fd00:10::/64"]}}
---
"""
LAYER3 = """
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: routed}
spec:
  topology: Layer3
  layer3:
    role: Primary
    subnets: [{cidr: 10.128.0.0/16, hostSubnet: 24}, {cidr: "fd00:10:128::/48", hostSubnet: 64}]
---
"""
MACHINE = (WORKLOAD % ("vm", "flat", "node1")).replace("node1", "node1, kind: vm")
EMPTY = SPACE % "flat" + LAYER2 + SPACE % "routed" + LAYER3
PLACED = EMPTY + "".join(WORKLOAD % ("w1", name, "node1") for name in ("flat", "routed"))
ARRIVED = PLACED + "".join(WORKLOAD % ("w3", name, "node3") for name in ("flat", "routed"))
NETWORKS = ("flat_net", "routed_net")


@pytest.fixture
def manifests(lab, tmp_path):
    """The lab's manifests, to be changed; afterwards the lab has its own again."""
    yield shutil.copytree(MANIFESTS, tmp_path / "manifests")
    lab.play("networks.yml")


def hosts_of(lab) -> dict[str, list]:
    """Return what the nodes have in OVN, Open vSwitch and the kernel, in a form that is equal when nothing changed."""
    dumped, in_kernel = lab.dump(), kernel(lab)
    return {node: [dumped[node].splitlines(), in_kernel[node], lab.provider_flows(node)] for node in NODES}


def traces(lab, node: str) -> list[str]:
    """Return what a node has of the networks: logical rows, bridge ports and kernel state that name them."""
    northbound = lab.ssh(node, "ovn-nbctl", "show")
    ports = lab.ssh(node, "ovs-vsctl", "list-ports", "br-ex") + lab.ssh(node, "ovs-vsctl", "list-ports", "br-int")
    wanted = [*NETWORKS, *(name.replace("_", ".") for name in NETWORKS)]
    return [line for line in (northbound + ports).splitlines() if any(name in line for name in wanted)]


@pytest.mark.long
def test_a_network_follows_its_workloads(lab, manifests):
    own = manifests / "nodes.yml"
    before = hosts_of(lab)
    own.write_text(EMPTY)
    run = lab.play("networks.yml", manifests=manifests)
    # A host is not even called when the part of the plan that it needs is as before; node1 has the state.
    assert (run.changed["node2"], run.changed["node3"]) == (0, 0)
    assert hosts_of(lab) == before
    for name in ("flat", "routed"):
        conditions = condition_of(status(), f"UserDefinedNetwork/{name}/net")
        assert {kind: one["status"] for kind, one in conditions.items()} == {
            "NetworkCreated": "True", "NetworkAllocationSucceeded": "True", "NodesSelected": "False",
            "NetworkReady": "True",
        }  # fmt: skip

    own.write_text(PLACED)
    run = lab.play("networks.yml", manifests=manifests)
    assert (run.changed["node2"], run.changed["node3"]) == (0, 0)
    placed = hosts_of(lab)
    assert [node for node in NODES if placed[node] != before[node]] == ["node1"]
    assert {node: bool(traces(lab, node)) for node in NODES} == {"node1": True, "node2": False, "node3": False}

    own.write_text(ARRIVED)
    lab.play("networks.yml", manifests=manifests)
    for name in ("flat", "routed"):
        conditions = condition_of(status(), f"UserDefinedNetwork/{name}/net")
        assert conditions["NodesSelected"]["message"] == "2 node(s) rendered with network"
        assert status()["objects"][f"UserDefinedNetwork/{name}/net"]["status"]["hosts"] == {
            "node1": "ready", "node3": "ready",
        }  # fmt: skip
        interfaces = {
            place: [one["addresses"] for one in status()["workloads"][f"{name}/w{place}"]["interfaces"]][-1]
            for place in (1, 3)
        }
        for place, other in ((1, 3), (3, 1)):
            targets = (address.partition("/")[0] for address in interfaces[other])
            lab.wait_for_answers(f"node{place}", f"{name}_w{place}", *targets)
    assert not traces(lab, "node2")
    assert hosts_of(lab)["node2"] == before["node2"]
    unchanged(lab, manifests)

    own.write_text(PLACED)
    announced = lab.play("networks.yml", "--check", "--diff", manifests=manifests)
    assert "NodesSelected True (DynamicAllocation): 1 node(s) rendered with network" in announced.output
    lab.play("networks.yml", manifests=manifests)
    assert hosts_of(lab) == placed
    lab.play("audit.yml", manifests=manifests)
    own.write_text(EMPTY)
    lab.play("networks.yml", manifests=manifests)
    assert hosts_of(lab) == before


@pytest.mark.long
def test_a_virtual_machine_brings_its_network_to_its_target(lab, manifests):
    before = hosts_of(lab)
    (manifests / "nodes.yml").write_text(SPACE % "flat" + LAYER2 + MACHINE + WORKLOAD % ("w1", "flat", "node1"))
    lab.play("networks.yml", manifests=manifests)
    assert {node: bool(traces(lab, node)) for node in NODES} == {"node1": True, "node2": False, "node3": False}
    (machine,) = status()["workloads"]["flat/vm"]["interfaces"]
    # It may still boot.
    reached = [address.partition("/")[0] for address in machine["addresses"]]
    lab.wait_for_answers("node1", "flat_w1", *reached)

    lab.play("migrate_workload.yml", "-e", "workload=flat/vm", "-e", "to=node3")
    lab.wait_for_answers("node1", "flat_w1", *reached)
    assert {node: bool(traces(lab, node)) for node in NODES} == {"node1": True, "node2": False, "node3": True}
    assert hosts_of(lab)["node2"] == before["node2"]
    lab.play("audit.yml", manifests=manifests)
    (manifests / "nodes.yml").write_text(SPACE % "flat" + LAYER2 + MACHINE)
    lab.play("networks.yml", manifests=manifests)
    assert {node: bool(traces(lab, node)) for node in NODES} == {"node1": False, "node2": False, "node3": True}
    (manifests / "nodes.yml").unlink()
    lab.play("networks.yml", manifests=manifests)
    assert hosts_of(lab) == before
