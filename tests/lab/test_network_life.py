# SPDX-License-Identifier: Apache-2.0
"""Lifecycle of networks on a converged lab: created, waiting, in use, deleted."""

import json
import re
import shutil

import pytest

from tests.lab.conftest import MANIFESTS, NODES, REPORT

SPACE = """
apiVersion: v1
kind: Namespace
metadata: {name: %s, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
---
"""
NETWORK = """
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: green}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24, "fd00:10::/64"]}}
---
"""
WORKLOAD = """
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: %s, namespace: %s}
spec: {node: %s}
---
"""
CLUSTER_NETWORK = """
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: %s}
spec:
  namespaceSelector:
    matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [%s]}]
  network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24, "fd00:10::/64"]}}
---
"""
GREEN = SPACE % "green" + WORKLOAD % ("g1", "green", "node1") + WORKLOAD % ("g3", "green", "node3")


@pytest.fixture(scope="module")
def manifests(lab, tmp_path_factory):
    """The lab's manifests, to be changed; afterwards the lab has its own again."""
    yield shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("life") / "manifests")
    lab.play("networks.yml")


def kernel(lab):
    """Return the hosts' own links, rules, routes and packet filters, without numbers that count on.

    Left out are routes of link-local addresses, which the kernel adds when duplicate address detection is over.
    """
    commands = ("ip -o link", "ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all",
                "nft -s list ruleset")  # fmt: skip
    found = {}
    for node in NODES:
        text = lab.ssh(node, "sh", "-c", f"'{' ; '.join(commands)}'")
        lines = (re.sub(r"^\d+: |@\w+|link-netns \S+|expires \d+sec|altname \S+", "", one) for one in text.splitlines())
        found[node] = sorted(line.strip() for line in lines if not re.match(r"(local|anycast) fe80:", line))
    return found


def status():
    """What networks.yml showed at its end."""
    return json.loads((REPORT / "status.json").read_text())


def condition_of(report, key):
    return {one["type"]: one for one in report["objects"][key]["status"]["conditions"]}


def unchanged(lab, manifests):
    run = lab.play("networks.yml", "--diff", manifests=manifests)
    assert set(run.changed.values()) == {0}, run.output[-8000:]


def test_network_in_use_works_until_its_last_workload_is_deleted(lab, manifests):
    before, hosts = lab.dump(), kernel(lab)
    green, key = manifests / "green.yml", "UserDefinedNetwork/green/net"
    green.write_text(GREEN)
    waiting = lab.play("networks.yml", manifests=manifests)
    assert "Workload/green/g1, Workload/green/g3: Ready False (PrimaryNetworkMissing)" in waiting.output
    assert lab.dump() == before

    green.write_text(GREEN + NETWORK)
    announced = lab.play("networks.yml", "--check", "--diff", manifests=manifests)
    assert "green_net_transit_router" in announced.output
    assert lab.dump() == before
    added = lab.play("networks.yml", manifests=manifests)
    # No workload on node2 has the network, so that host is left alone.
    assert [node for node in NODES if added.changed[node]] == ["node1", "node3"]
    lab.wait_for_answers("node1", "green_g1", "10.0.0.4", "fd00:10::4")
    lab.wait_for_answers("node3", "green_g3", "10.0.0.3", "fd00:10::3")
    lab.play("status.yml", manifests=manifests)
    report = status()
    assert condition_of(report, key)["NetworkReady"]["status"] == "True"
    assert set(report["objects"][key]["status"]["hosts"].values()) == {"ready"}
    unchanged(lab, manifests)
    applied = lab.dump()

    green.write_text(GREEN)
    announced = lab.play("networks.yml", "--check", "--diff", manifests=manifests)
    assert "network in use by the following pods: [green/g1, green/g3]" in announced.output
    deleting = lab.play("networks.yml", manifests=manifests)
    assert "delete UserDefinedNetwork/green/net when its last user is gone" in deleting.output
    assert lab.dump() == applied
    lab.wait_for_answers("node1", "green_g1", "10.0.0.4", "fd00:10::4")
    report = status()
    assert condition_of(report, key)["NetworkCreated"]["reason"] == "SyncError"
    assert "deletionTimestamp" in report["objects"][key]["metadata"]
    unchanged(lab, manifests)

    green.write_text(GREEN + NETWORK)
    assert "is being deleted since" in lab.play("networks.yml", manifests=manifests, success=False).output

    green.write_text(SPACE % "green")
    lab.play("networks.yml", manifests=manifests)
    assert key not in status()["objects"]
    assert (lab.dump(), kernel(lab)) == (before, hosts)


@pytest.mark.long
def test_two_cluster_networks_that_select_one_namespace(lab, manifests):
    before, hosts = lab.dump(), kernel(lab)
    text = "".join(SPACE % f"space-{name}" for name in "abcde")
    text += CLUSTER_NETWORK % ("net1", "space-a, space-b, space-c") + CLUSTER_NETWORK % (
        "net2", "space-c, space-d, space-e"
    )  # fmt: skip
    places = {"a": "node1", "c": "node2", "d": "node3", "e": "node1"}
    text += "".join(WORKLOAD % ("w", f"space-{name}", node) for name, node in places.items())
    (manifests / "spaces.yml").write_text(text)
    lab.play("networks.yml", manifests=manifests)
    report = status()
    first, second = (f"ClusterUserDefinedNetwork/net{number}" for number in (1, 2))
    assert report["objects"][first]["status"]["activeNamespaces"] == ["space-a", "space-b", "space-c"]
    assert report["objects"][second]["status"]["activeNamespaces"] == ["space-d", "space-e"]
    assert "is rejected" in condition_of(report, first)["PrimaryNetworkConflict"]["message"]
    assert "already exist in namespace space-c" in condition_of(report, second)["NetworkCreated"]["message"]
    assert {condition_of(report, key)["NetworkReady"]["status"] for key in (first, second)} == {"True"}
    # Both networks give the same addresses: who answers shows which network it is.
    lab.wait_for_answers("node1", "space-a_w", "10.0.0.4", "fd00:10::4")
    lab.wait_for_answers("node3", "space-d_w", "10.0.0.4", "fd00:10::4")
    lab.play("verify.yml", manifests=manifests)

    (manifests / "spaces.yml").unlink()
    lab.play("networks.yml", manifests=manifests)
    assert (lab.dump(), kernel(lab)) == (before, hosts)


@pytest.mark.long
def test_readiness_only_for_hosts_that_reported_it(lab, manifests):
    key = "UserDefinedNetwork/green/net"
    (manifests / "green.yml").write_text(GREEN + NETWORK)
    alone = lab.play("networks.yml", "--limit", "node2", manifests=manifests, success=False)
    assert "--limit 'node2,node1,localhost'" in alone.output

    lab.play("networks.yml", "--limit", "node2,node1,localhost", manifests=manifests)
    ready = condition_of(status(), key)["NetworkReady"]
    assert (ready["status"], ready["message"]) == ("Unknown", "node3: not asked")

    lab.ssh("node3", "systemctl", "stop", "ovn-central")
    try:
        failed = lab.play("networks.yml", manifests=manifests, success=False)
    finally:
        lab.ssh("node3", "systemctl", "start", "ovn-central")
    assert "were not brought to the plan: node3." in failed.output
    ready = condition_of(status(), key)["NetworkReady"]
    assert ready["status"] == "False"
    assert ready["message"].startswith("node3: failed: unix:/var/run/ovn/ovn")

    lab.play("networks.yml", manifests=manifests)
    assert condition_of(status(), key)["NetworkReady"]["status"] == "True"
    unchanged(lab, manifests)
