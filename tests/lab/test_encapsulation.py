# SPDX-License-Identifier: Apache-2.0
"""Paths between the lab's hosts: measured beside OVN's tunnels, and checked by the hosts while the cluster runs."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from tests.lab.conftest import MANIFESTS, NODES

pytestmark = pytest.mark.long
AUTO = ("-e", "heddle_encapsulation_type=auto")
AGAIN = (*AUTO, "-e", "heddle_probe_underlay=true")
# Bytes of an IP packet that the lab's underlay carries, and of the largest that the black hole lets through.
UNDERLAY, HOLE = 9100, 1600
PATIENCE = 600
WIDE = """
apiVersion: v1
kind: Namespace
metadata: {{name: wide}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: net, namespace: wide}}
spec: {{topology: Layer2, layer2: {{role: Secondary, subnets: [10.77.0.0/24], mtu: {mtu}}}}}
"""


@pytest.fixture
def automatic(lab):
    """The hosts check their paths; afterwards the underlay is clean and they check nothing."""
    lab.play("networks.yml", *AUTO)
    yield
    lab.verb("lose")
    lab.try_ssh("node3", "nft", "delete", "table", "inet", "closed")
    lab.play("networks.yml", "-e", f"heddle_encapsulation_type={overlay(lab)[0]}")


@pytest.fixture
def manifests(tmp_path):
    return shutil.copytree(MANIFESTS, tmp_path / "manifests")


def reported(lab, node: str) -> dict[str, dict]:
    return json.loads(lab.ssh(node, "cat /run/heddle/underlay.json || echo '{}'"))


def wait_for(lab, node: str, target: str, condition) -> dict:
    """Wait until a host has found something about a path; return it."""
    until = time.monotonic() + PATIENCE
    while True:
        found = reported(lab, node).get(target)
        if found and condition(found):
            return found
        assert time.monotonic() < until, found
        time.sleep(1)


def overlay(lab) -> tuple[str, int]:
    kind = lab.plan().get("encapsulation", "geneve")
    return kind, {"geneve": 6081, "vxlan": 4789}[kind]


def stored_paths(lab) -> dict[str, dict]:
    """What the state has about the paths of each node."""
    text = lab.ssh("node1", "ovsdb-client --format=json dump unix:/run/heddle-state/heddle.sock Heddle")
    found = {}
    for table in map(json.loads, text.splitlines()):
        rows = [dict(zip(table["headings"], row, strict=True)) for row in table["data"]]
        for row in rows:
            if row.get("kind") == "Node":
                found[row["name"]] = json.loads(row["spec"]).get("paths")
    return found


def test_a_path_that_shrinks_is_reported_with_the_pair_and_the_size(lab, automatic, manifests):
    kind, _port = overlay(lab)
    for node in NODES:
        for target in set(NODES) - {node}:
            wait_for(lab, node, target, lambda one: one["size"] == one["needed"])
    assert "path to" not in lab.ssh(NODES[0], "heddle-host", "status")
    lab.verb("lose", "--blackhole", "node1", "node2", str(HOLE))
    found = wait_for(lab, "node1", "node2", lambda one: one["size"] < one["needed"])
    assert found["size"] == HOLE
    wait_for(lab, "node2", "node1", lambda one: one["size"] == HOLE)
    line = f"path to node2: {kind} (UDP {overlay(lab)[1]}) packets of up to {HOLE} bytes get through, networks send"
    assert line in lab.try_ssh("node1", "heddle-host", "status").stdout
    assert reported(lab, "node1")["node3"]["size"] == found["needed"]
    # What is there stays, and the operator reads what is wrong.
    assert f"node1: {line}" in lab.play("networks.yml", *AUTO).output
    # What is new is refused where it does not fit, once the path was measured again.
    (manifests / "wide.yml").write_text(WIDE.format(mtu=HOLE))
    refused = lab.play("networks.yml", *AGAIN, manifests=manifests, success=False).output
    assert f"spec.mtu: {HOLE} does not fit into the tunnels from node1 to node2" in refused
    assert f"gets through with packets of up to {HOLE} bytes" in refused
    lab.verb("lose")
    for pair in (("node1", "node2"), ("node2", "node1")):
        wait_for(lab, *pair, lambda one: one["size"] == one["needed"])
    lab.play("networks.yml", *AGAIN)
    assert stored_paths(lab)["node1"]["node2"][kind] == UNDERLAY


def test_a_closed_port_is_found_beside_the_tunnels(lab, automatic):
    """One host's firewall closes the port of the encapsulation in one direction; the other one still gets through."""
    kind, port = overlay(lab)
    other = "vxlan" if kind == "geneve" else "geneve"
    source = lab.plan()["nodes"]["node1"]["encap_ips"][0]
    family = "ip6" if ":" in source else "ip"
    rule = f"{family} saddr {source} udp dport {port} drop"
    lab.ssh("node3", f"nft 'table inet closed {{ chain input {{ type filter hook input priority 0; {rule}; }}; }}'")
    lab.play("networks.yml", *AGAIN)
    found = stored_paths(lab)
    assert found["node1"]["node3"] == {kind: 0, other: UNDERLAY}
    assert found["node3"]["node1"] == {kind: UNDERLAY, other: UNDERLAY}
    wait_for(lab, "node1", "node3", lambda one: one["size"] == 0)
    assert (
        f"path to node3: no {kind} (UDP {port}) packet is answered"
        in lab.try_ssh("node1", "heddle-host", "status").stdout
    )
    lab.ssh("node3", "nft", "delete", "table", "inet", "closed")
    wait_for(lab, "node1", "node3", lambda one: one["size"] == one["needed"])
    lab.play("networks.yml", *AGAIN)
    assert lab.play("networks.yml", *AUTO).changed["node1"] == 0
