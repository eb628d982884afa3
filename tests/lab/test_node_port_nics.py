# SPDX-License-Identifier: Apache-2.0
"""Node ports by a further NIC of all hosts, the external one among them: namespaces with bridges, and tunnels between.

On a Layer2, a Layer3 and the default network; the first two have equal subnets. Node3 has no endpoint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.lab.conftest import MANIFESTS, NODES, REPORT, Lab
from tests.lab.tenants import TENANTS
from tests.lab.test_coil import own
from tests.lab.test_service_traffic import FIRST, LONG, OTHER_PORT, SERVERS, SHORT, TARGET_PORT, WORKLOAD, ask, serving

__all__ = ["own"]
NIC, BEYOND, SEGMENT, UNIT = "eth3", "beyond", "segment", "heddle-test-nic-serve"
# Host -> last part of its addresses on the provider network and on that of the NIC.
NUMBERS = {"node1": 1, "node2": 2, "node3": 3, "external": 20}
SUBNETS = {4: "203.0.113.0/24", 6: "2001:db8:3::/64"}
CLIENTS = ("node3", "external")
SERVICE = """---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  type: NodePort
  externalTrafficPolicy: {policy}
  ipFamilyPolicy: RequireDualStack
  selector: {{app: web}}
  ports: [{{name: http, port: 80, targetPort: 8080}}, {{name: probe, port: 7654}}]
"""
# Name of the Service -> policy.
POLICIES = {"all": "Cluster", "near": "Local"}
# Answers each connection with a word and the address that it saw.
SERVE = """
import socket, sys
server = socket.create_server(("::", 8080), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
while True:
    opened, peer = server.accept()
    opened.sendall(f"{sys.argv[1]} {peer[0].removeprefix('::ffff:')}".encode())
    opened.close()
"""
pytestmark = pytest.mark.long


def address(host: str, version: int) -> str:
    """The address of a host on the network of the NIC."""
    number = NUMBERS[host]
    return f"203.0.113.{number}" if version == 4 else f"2001:db8:3::{number}"


@pytest.fixture(scope="module")
def network(lab: Lab, own: dict) -> Iterator[None]:
    """The network of the NIC. Its frames pass the provider network in tunnels."""
    for host, number in NUMBERS.items():
        others = [f"{own['prefix']}.2.{one}" for one in NUMBERS.values() if one != number]
        # Open vSwitch in user space, through which the tunnels go, does not complete checksums of inner packets.
        lab.ssh(
            host,
            f"ip netns add {BEYOND} && ip link add {NIC} type veth peer name far netns {BEYOND} && "
            f"ethtool --offload {NIC} tx off && ip link set {NIC} mtu 1300 up && "
            f"ip address add {address(host, 4)}/24 dev {NIC} && "
            f"ip address add {address(host, 6)}/64 dev {NIC} nodad && "
            f"ip link add across type vxlan id 10 dstport 4791 local {own['prefix']}.2.{number} && "
            f"ip link set across netns {BEYOND} && ip -n {BEYOND} link add {SEGMENT} type bridge && "
            f"ip -n {BEYOND} link set {SEGMENT} up && ip -n {BEYOND} link set far master {SEGMENT} up && "
            f"ip -n {BEYOND} link set across master {SEGMENT} up && "
            + " && ".join(f"bridge -n {BEYOND} fdb append 00:00:00:00:00:00 dev across dst {one}" for one in others),
        )
    yield
    for host in NUMBERS:
        lab.ssh(host, f"ip link delete {NIC}; ip netns delete {BEYOND}")
    # Nodes have node ports at the addresses that the latest run has found, and verify asks these.
    lab.play("networks.yml")


@pytest.fixture(scope="module")
def manifests(lab: Lab, network: None, tmp_path_factory) -> Iterator[Path]:
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("nics") / "manifests")
    text = ""
    for namespace, tenant in TENANTS.items():
        text += tenant
        for name, policy in POLICIES.items():
            text += SERVICE.format(namespace=namespace, name=name, policy=policy)
        for node in NODES:
            text += WORKLOAD.format(namespace=namespace, node=node, app="web" if node in SERVERS else "none")
    (directory / "tenants.yml").write_text(text)
    lab.play("networks.yml", manifests=directory)
    with serving(lab, UNIT, SERVE):
        yield directory


@pytest.fixture(scope="module")
def plan(lab: Lab, manifests: Path) -> dict:
    return lab.plan()


def service(plan: dict, namespace: str, name: str) -> dict:
    return next(found[f"{namespace}/{name}"] for found in plan["services"].values() if f"{namespace}/{name}" in found)


def node_port(plan: dict, namespace: str, name: str) -> int:
    return next(one["node_port"] for one in service(plan, namespace, name)["ports"] if one["port"] == 80)


def ask_twice(lab: Lab, client: str, targets: list[tuple[str, int]]) -> list[set[str]]:
    """What answers at the second time: with the first packets MAC addresses are resolved (docs/services.md)."""
    ask(lab, client, targets, limit=FIRST)
    return ask(lab, client, targets, limit=LONG)


def ways(client: str, plan: dict) -> list[tuple[str, str, str]]:
    """Node, its address and that of the client: on the network of the NIC, and of two nodes on that of the tunnels."""
    found = [
        (node, address(node, version), address(client, version))
        for node in NODES
        if node != client
        for version in (4, 6)
    ]
    if client in NODES:
        ends = {node: plan["nodes"][node]["encap_ips"][0] for node in NODES}
        found += [(node, ends[node], ends[client]) for node in NODES if node != client]
    return found


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("namespace", TENANTS)
def test_the_policy_cluster_leads_to_all_endpoints_by_any_node(lab, plan, client, namespace):
    port = node_port(plan, namespace, "all")
    asked = ways(client, plan)
    for (_node, _target, source), said in zip(
        asked, ask_twice(lab, client, [(target, port) for _node, target, _source in asked]), strict=True
    ):
        assert {one.partition(" ")[0] for one in said} <= {f"{namespace}-{server}" for server in SERVERS}
        # They see the gateway router.
        assert source not in {one.partition(" ")[2] for one in said}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("namespace", TENANTS)
def test_the_policy_local_leads_to_endpoints_of_the_node_which_see_the_client(lab, plan, client, namespace):
    port = node_port(plan, namespace, "near")
    asked = ways(client, plan)
    found = ask_twice(lab, client, [(target, port) for _node, target, _source in asked])
    for (node, target, source), said in zip(asked, found, strict=True):
        assert said == ({f"{namespace}-{node} {source}"} if node in SERVERS else {""}), target


@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_else_is_reached_by_the_nic(lab, plan, client):
    """Ports of endpoints and others, cluster IPs, and networks behind the node."""
    known = address("node1", 4), node_port(plan, "apart", "all")
    targets = [(address("node1", version), port) for version in (4, 6) for port in (TARGET_PORT, OTHER_PORT)]
    far = {(one, 80) for namespace in TENANTS for one in service(plan, namespace, "all")["addresses"]}
    # IPv6 is forwarded by a host with workloads between all its interfaces.
    far |= {(plan["nodes"]["node2"]["encap_ips"][0], 22)} if client == "external" else set()
    for one, _port in far:
        lab.ssh(client, f"ip route replace {one} via {address('node1', 6 if ':' in one else 4)} dev {NIC}")
    try:
        targets += sorted(far)
        assert ask(lab, client, targets, limit=SHORT, known=known) == [{""}] * len(targets)
    finally:
        for one, _port in far:
            lab.ssh(client, f"ip route delete {one} dev {NIC}")


def test_verify_asks_by_the_nic_from_nodes_and_from_the_external_host(lab, plan, manifests, own, tmp_path):
    addresses = [f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20", *(address("external", one) for one in (4, 6))]
    (tmp_path / "near.yml").write_text(
        yaml.safe_dump({"all": {"hosts": {"external": {"heddle_addresses": addresses}}}})
    )
    lab.play("verify.yml", "-i", "inventories/lab", "-i", str(tmp_path / "near.yml"), manifests=manifests)
    report = json.loads((REPORT / "verify.json").read_text())
    found = {
        (one["kind"], *one["way"].split(", ")): one["result"]
        for one in report["north_south"]["flows"]
        if any(subnet in one["way"] for subnet in SUBNETS.values())
    }
    assert set(found) == {
        (kind, f"other NIC on {subnet}", topology, policy)
        for kind in ("other host to entrance", "external host to entrance")
        for subnet in SUBNETS.values()
        for topology in ("Layer2", "Layer3", "default network")
        for policy in POLICIES.values()
    }
    assert set(found.values()) == {"reached"}
    assert not [line for line in report["north_south"]["left_out"] if "203.0.113." in line]
