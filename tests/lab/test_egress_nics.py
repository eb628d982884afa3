# SPDX-License-Identifier: Apache-2.0
"""EgressIPs in the network of a further NIC of two nodes: bridges in namespaces of both, with a tunnel between them."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests.lab.address_moves import assignable, begin_connecting, expect_move
from tests.lab.conftest import MANIFESTS, NODES, Lab
from tests.lab.remote_program import RemoteProgram
from tests.lab.tenants import egress_ip
from tests.lab.test_coil import own

__all__ = ["own"]
NIC, BEYOND, UNIT, PORT = "eth3", "beyond", "heddle-test-beyond", 7655
SEGMENT, FIRST_PORT = "segment", 7720
# Host -> last part of its address there.
NUMBERS = {"node2": 12, "node3": 13}
CONNECTED, OBSERVER = tuple(NUMBERS), "node2"
NEAR = {4: "203.0.113.50", 6: "2001:db8:3::50"}
EGRESS = {4: "203.0.113.100", 6: "2001:db8:3::100"}
NAMESPACE = """---
apiVersion: v1
kind: Namespace
metadata: {name: apart}
"""
WORKLOAD = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: {node}, namespace: apart}}
spec: {{node: {node}}}
"""
TENANT = NAMESPACE + "".join(WORKLOAD.format(node=node) for node in NODES)
# Answers with the address that it saw.
SERVER = f"""
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind(("::", {PORT}))
while True:
    data, peer = s.recvfrom(100)
    s.sendto(peer[0].removeprefix("::ffff:").encode(), peer)
"""
# Asks until there is an answer.
CLIENT = """
import socket, sys
target = sys.argv[1]
s = socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
for _ in range(30):
    s.sendto(b"who", (target, int(sys.argv[2])))
    try:
        print(s.recv(100).decode())
        break
    except OSError:
        pass
"""
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def before(lab: Lab) -> dict[str, list[str]]:
    return {node: kernel_state(lab, node) for node in NODES}


@pytest.fixture(scope="module")
def network(lab: Lab, own: dict, before: dict) -> Iterator[None]:
    for node, number in NUMBERS.items():
        other = sum(NUMBERS.values()) - number
        lab.ssh(
            node,
            f"ip netns add {BEYOND} && ip link add {NIC} type veth peer name far netns {BEYOND} && "
            f"ip link set {NIC} up && ip address add 203.0.113.{number}/24 dev {NIC} && "
            f"ip address add 2001:db8:3::{number}/64 dev {NIC} nodad && "
            f"ip link add across type vxlan id 9 dstport 4790 local {own['prefix']}.1.{number - 10} "
            f"remote {own['prefix']}.1.{other - 10} && ip link set across netns {BEYOND} && "
            f"ip -n {BEYOND} link add {SEGMENT} type bridge && ip -n {BEYOND} link set {SEGMENT} up && "
            f"ip -n {BEYOND} link set far master {SEGMENT} up && ip -n {BEYOND} link set across master {SEGMENT} up && "
            # Open vSwitch in user space, through which the tunnel goes, does not complete checksums of inner packets.
            f"ip netns exec {BEYOND} ethtool --offload {SEGMENT} tx off",
        )
    near = " && ".join(
        f"ip -n {BEYOND} address add {NEAR[version]}/{length} dev {SEGMENT} {option}"
        for version, length, option in ((4, 24, ""), (6, 64, "nodad"))
    )
    lab.ssh(OBSERVER, near)
    path = f"--property=NetworkNamespacePath=/run/netns/{BEYOND}"
    lab.ssh(OBSERVER, "systemd-run", "--quiet", f"--unit={UNIT}", path, "python3", "-c", shlex.quote(SERVER))
    yield
    lab.try_ssh(OBSERVER, "systemctl", "stop", UNIT)
    for node in CONNECTED:
        lab.ssh(node, f"ip link delete {NIC}; ip netns delete {BEYOND}")
    # Node ports are at the addresses that the latest run has found, where verify asks them.
    lab.play("networks.yml")


@pytest.fixture(scope="module")
def manifests(lab: Lab, network: None, before: dict, tmp_path_factory) -> Iterator:
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("apart") / "manifests")
    (directory / "apart.yml").write_text(TENANT + egress_ip("apart", *EGRESS.values()))
    lab.play("networks.yml", manifests=directory)
    yield directory
    lab.play("networks.yml")
    assert {node: kernel_state(lab, node) for node in NODES} == before


def kernel_state(lab: Lab, node: str) -> list[str]:
    """Rules of EgressIPs, their addresses on the NIC, and what nftables has of them, in an order of their own."""
    rules = "ip rule | grep -E '^(5999|6000):'; ip -6 rule | grep -E '^(5999|6000):'"
    address = f"ip -brief address show {NIC} 2>/dev/null | grep -E '/(32|128)'"
    return sorted(
        lab.ssh(node, f"{rules}; {address}; nft list table inet heddle | grep egress-ip-snat; true").splitlines()
    )


def holders(lab: Lab) -> dict[str, str]:
    plan = lab.plan()
    entry = plan["egress_ips"]["apart"]
    assert {one["nic"] for one in entry["addresses"]} == {NIC}
    return {one["address"]: one["node"] for one in entry["addresses"]}


def seen(lab: Lab, node: str, target: str) -> str:
    """The address of a workload of a node, as the network beyond the NIC saw it; "" without an answer."""
    client = ["ip", "netns", "exec", f"apart_{node}", "python3", "-c", shlex.quote(CLIENT), target, str(PORT)]
    return lab.try_ssh(node, *client).stdout.strip()


def test_workloads_of_all_nodes_leave_by_the_nic(lab, manifests):
    found = holders(lab)
    assert set(found.values()) == set(CONNECTED)
    for node in NODES:
        assert {version: seen(lab, node, NEAR[version]) for version in (4, 6)} == EGRESS, node


def test_a_second_run_changes_nothing_and_the_audit_passes(lab, manifests):
    changed = lab.play("networks.yml", manifests=manifests).changed
    assert {node: changed[node] for node in NODES} == dict.fromkeys(NODES, 0)
    # The namespaces of this test.
    assert "0 drifted, 2 foreign, 0 notes, 0 problems" in lab.play("audit.yml", manifests=manifests).output


def test_the_host_restores_what_it_lost(lab, manifests):
    """As after a reboot: rules, table, address and nftables are of the running kernel only."""
    node = holders(lab)[EGRESS[4]]
    good = kernel_state(lab, node)
    damage = f"ip rule delete priority 6000; ip address delete {EGRESS[4]}/32 dev {NIC}; nft flush table inet heddle"
    lab.ssh(node, f"{damage}; systemctl restart heddle-host")
    assert any(kernel_state(lab, node) == good for _attempt in attempts(120, longest=2))
    assert seen(lab, "node1", NEAR[4]) == EGRESS[4]


@pytest.mark.parametrize("version", [4, 6])
def test_an_address_moves_to_the_nic_of_another_host(lab, manifests, own, tmp_path, version):
    """Never on two of them, as that network sees it, and connections work again."""
    (manifests / "apart.yml").write_text(TENANT + egress_ip("apart", EGRESS[version]))
    lab.play("networks.yml", *assignable(tmp_path, *CONNECTED), manifests=manifests)
    [former] = set(holders(lab).values())
    [new] = set(CONNECTED) - {former}
    ports = {node: FIRST_PORT + place for place, node in enumerate(NODES)}
    for node, port in ports.items():
        begin_connecting(lab, node, f"apart_{node}", f"{UNIT}-connect", port, NEAR[version])
    try:
        words = ["from", SEGMENT, [NEAR[4], NEAR[6]], {EGRESS[version]: [*ports.values()]}]
        watch = RemoteProgram(lab, OBSERVER, "address_watch.py", *words, namespace=BEYOND)
        assert watch.line() == "ready"
        lab.play("networks.yml", *assignable(tmp_path, new), manifests=manifests)
        assert set(holders(lab).values()) == {new}
        known = {node: lab.ssh(node, f"cat /sys/class/net/{NIC}/address").strip() for node in CONNECTED}
        expect_move(watch, known, {EGRESS[version]: (former, new)})
    finally:
        for node in NODES:
            lab.try_ssh(node, "systemctl", "stop", f"{UNIT}-connect")
    again = lab.play("networks.yml", *assignable(tmp_path, new), manifests=manifests).changed
    assert {node: again[node] for node in NODES} == dict.fromkeys(NODES, 0)


def test_user_defined_networks_get_a_condition(lab, manifests):
    (manifests / "apart.yml").write_text(egress_ip("apart", *EGRESS.values(), namespace="red"))
    output = lab.play("networks.yml", manifests=manifests).output
    assert "egress IP assigned to a host secondary interface for a user defined network" in output
