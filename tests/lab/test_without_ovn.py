# SPDX-License-Identifier: Apache-2.0
"""A fleet without OVN: hosts with address pools alone, from the installation to `uninstall.yml`.

It takes Heddle off the lab's hosts first, and installs it as it was at the end. Where the kernel has FoU, as that of
User Mode Linux has, there is an Egress as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import NODES, REPORT, Lab
from tests.lab.remote_program import RemoteProgram
from tests.lab.test_coil import POOL, WORKLOAD, kernel_state, wait_for
from tests.lab.test_egress import CLIENT, egress, has_fou

pytestmark = pytest.mark.long
TEXTFILE = "/var/lib/prometheus/node-exporter/heddle.prom"
METRICS = {"textfile": TEXTFILE, "interval": 5, "listen": "127.0.0.1:9384"}
WITHOUT = ("-e", json.dumps({"heddle_settings": {"ovn": False}, "heddle_metrics": METRICS}))
OWN = (
    "/etc/bird/heddle* /etc/systemd/system/heddle* /var/lib/prometheus /var/lib/heddle /usr/local/sbin/heddle-host "
    "/run/heddle"
)
FETCH = "import urllib.request as http; print(http.urlopen('http://127.0.0.1:9384/metrics').read().decode())"
FORCE = ("-e", "heddle_uninstall_force=true")
ADDRESSES = {
    f"node{number}": (f"10.200.0.{2 * number - 2}", f"fd00:10:200::{2 * number - 2:x}") for number in (1, 2, 3)
}
PORT = 7700
NETWORK = """---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: coil}
spec: {topology: Layer2, layer2: {role: Secondary, subnets: [10.77.0.0/24]}}
"""


# Where the client, the router and the external end of the test of Egress are.
CLIENTS_NODE, ROUTERS_NODE, TARGETS_NODE = NODES


def packages(lab: Lab, node: str) -> str:
    return lab.ssh(node, "dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n' | sort")


def units(lab: Lab, node: str) -> str:
    """Return what is in the way of the units of Debian's packages, and the links by which these are enabled."""
    return lab.ssh(node, "ls /etc/systemd/system | grep -E '^(ovn|ovs)'; true")


@pytest.fixture(scope="module")
def empty(lab: Lab) -> Iterator[dict[str, tuple[str, str, str]]]:
    """Hosts without Heddle: packages, units of OVN, and what the kernel has of tables and namespaces."""
    lab.uninstall()
    yield {node: (packages(lab, node), kernel_state(lab, node), units(lab, node)) for node in NODES}
    lab.uninstall()
    lab.play("site.yml")


@pytest.fixture(scope="module")
def manifests(lab: Lab, empty: dict, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("without") / "manifests"
    directory.mkdir()
    text = POOL + "".join(WORKLOAD.format(name=f"c{node[-1]}", node=node) for node in NODES)
    if has_fou(lab):
        selector = {"kubernetes.io/hostname": ROUTERS_NODE}
        destinations = [f"{one}/{128 if ':' in one else 32}" for one in underlay_addresses(lab)]
        text += egress("coil", destinations, 1, selector) + CLIENT.format(
            name="client", node=CLIENTS_NODE, where="coil"
        )
    (directory / "coil.yml").write_text(text)
    lab.play("site.yml", *WITHOUT, manifests=directory)
    return directory


def underlay_addresses(lab: Lab) -> list[str]:
    """Return the underlay addresses of the host that clients reach through the Egress, IPv4 and IPv6."""
    lines = lab.ssh(TARGETS_NODE, "ip -o address show dev eth1 scope global").splitlines()
    return sorted((line.split()[3].partition("/")[0] for line in lines), key=lambda address: ":" in address)


def pairs() -> list[tuple[str, str, str]]:
    return [
        (node, f"coil_c{node[-1]}", address)
        for node in NODES
        for other, addresses in ADDRESSES.items()
        for address in addresses
        if other != node
    ]


def test_hosts_have_neither_ovn_nor_its_bridges(lab, manifests, empty):
    wait_for(lab, pairs())
    for node in NODES:
        # The image of the lab has all packages, and Debian's Open vSwitch runs as soon as it is installed.
        assert packages(lab, node) == empty[node][0]
        assert set(lab.try_ssh(node, "systemctl", "is-active", "ovn-controller", "ovn-northd").stdout.split()) == {
            "inactive"
        }
        assert units(lab, node) == empty[node][2]
        links = lab.ssh(node, "ip -o -brief link")
        assert "br-int" not in links
        assert "br-ex" not in links
        assert lab.ssh(node, "heddle-host status").splitlines()[0].startswith("plan ")
    assert set(lab.play("site.yml", *WITHOUT, manifests=manifests).changed.values()) == {0}


def test_the_same_verbs(lab, manifests):
    wait_for(lab, pairs())
    assert "0 drifted, 0 foreign, 0 notes, 0 problems" in lab.play("audit.yml", *WITHOUT, manifests=manifests).output
    assert "Neighbours of BIRD" in lab.play("status.yml", *WITHOUT, manifests=manifests).output
    lab.play("verify.yml", *WITHOUT, manifests=manifests)
    report = json.loads((REPORT / "verify.json").read_text())
    assert {(row["network"], row["family"]) for row in report["networks"]} == {
        ("address pools", 4),
        ("address pools", 6),
    }
    assert all(row["reached"] == row["must_reach"] > 0 for row in report["networks"])
    kinds = {(row["kind"], row["family"]): row["reached"] for row in report["north_south"]["counts"]}
    assert all(kinds[kind, version] for kind in ("pool to host", "host to pool") for version in (4, 6))
    metrics = lab.ssh("node1", "heddle-host metrics")
    assert 'heddle_daemon_up{unit="bird"} 1' in metrics
    assert 'unit="ovn-controller"' not in metrics


def test_metrics_are_written_and_asked_for_on_the_host_itself(lab, manifests):
    wait_for(lab, pairs())
    for node in NODES:
        asked = lab.ssh(node, f'python3 -c "{FETCH}"')
        assert 'coil_controller_allocated_blocks{pool="routed"} 3' in asked
        assert "coil_controller_max_blocks" in lab.ssh(node, "cat", TEXTFILE)
        # On the loopback interface alone.
        listening = lab.ssh(node, "ss -Hltn 'sport = :9384'").split()
        assert [one for one in listening if one.endswith(":9384")] == ["127.0.0.1:9384"]


def test_egress_without_ovn(lab, manifests):
    if not has_fou(lab):
        pytest.skip("this kernel has no FoU; User Mode Linux has")
    wait_for(lab, pairs())
    plan = lab.plan()
    router = plan["coil"]["workloads"]["coil/nat-0"]
    assert router["node"] == ROUTERS_NODE
    for address, seen in zip(underlay_addresses(lab), router["addresses"], strict=True):
        server = RemoteProgram(lab, TARGETS_NODE, "conversation.py", "serve", PORT, address)
        assert server.process.stdout.readline() == "ready\n"
        client = RemoteProgram(
            lab, CLIENTS_NODE, "conversation.py", "hold", "client", address, PORT, 3, namespace="coil_client"
        )
        assert client.line() == [seen] * 3
        client.end()
        server.end()


def test_a_manifest_that_needs_ovn_is_refused(lab, manifests, tmp_path):
    (tmp_path / "coil.yml").write_text((manifests / "coil.yml").read_text())
    (tmp_path / "net.yml").write_text(NETWORK)
    refused = lab.play("networks.yml", *WITHOUT, manifests=tmp_path, success=False)
    assert refused.code
    assert "UserDefinedNetwork/coil/net): kind: UserDefinedNetwork needs OVN" in " ".join(refused.output.split())


def test_a_rebooted_host_comes_back_without_a_playbook(lab, manifests):
    lab.verb("reboot", "node2")
    wait_for(lab, pairs())


def test_uninstall_leaves_nothing_of_pools(lab, manifests, empty):
    wait_for(lab, pairs())
    lab.play("uninstall.yml", *FORCE, *WITHOUT, manifests=manifests)
    assert {node: (packages(lab, node), kernel_state(lab, node), units(lab, node)) for node in NODES} == empty
    for node in NODES:
        assert not lab.ssh(node, f"ls -d {OWN} 2>/dev/null; true")
    lab.play("site.yml", *WITHOUT, manifests=manifests)
