# SPDX-License-Identifier: Apache-2.0
"""The whole upgrade of Layer2 networks on real hosts: cut off, completed, rolled back, completed with clean-up.

In the gateway mode of `conftest.py`. The tests build on each other, in this order; those with the mark `long` may be
left out. After each stage every workload of one network is asked to reach its neighbours, its gateway, the join
addresses of all nodes and the external host, in both families; the playbook itself sends packets between all workloads
besides, and keeps traffic going (heddle.ovn.traffic) from its first step to its last.
"""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.lab.conftest import NODES, REPORT
from tests.lab.disturbed_run import disturbed, kill_run
from tests.lab.green_network import GREEN
from tests.pipeline import workload
from tests.upgrade.conftest import GATEWAY_MODE

PLAYBOOK, NETWORK = "upgrade_layer2.yml", "test12"
TARGETS = (
    "203.203.0.1", "203.203.0.3", "203.203.0.4", "203.203.0.5", "100.65.0.2", "100.65.0.3", "100.65.0.4",
    "2010:100:200::1", "2010:100:200::3", "2010:100:200::4", "2010:100:200::5", "fd99::2", "fd99::3", "fd99::4",
)  # fmt: skip
OLD = ["-e", '{"heddle_settings": {"layer2_topology": "gateway-router"}}']
ONLY = '{{"heddle_upgrade_nodes": ["{}"]}}'
# Percentage of packets and connections that an upgrade may lose, beside what the hosts lose of a network that it does
# not change: hosts that do not get their turn lose packets of all networks, not of each one equally many.
TOLERATED, UNEVEN = 1, 5
# What is sent meanwhile, beside the network that is not changed.
KINDS = {
    ("east-west", "udp"),
    ("north-south", "udp"),
    ("north-south", "new tcp"),
    ("to join address", "icmp"),
    ("to service", "new tcp"),
    ("to node port", "new tcp"),
    ("to load balancer", "new tcp"),
    ("by egress ip", "udp"),
    ("by egress ip", "new tcp"),
    ("by egress service", "udp"),
    ("by egress service", "new tcp"),
}


def versions(lab):
    state = "unix:/run/heddle-state/heddle.sock"
    select = ["Heddle", {"op": "select", "table": "Object", "where": [["kind", "==", "Node"]]}]
    rows = json.loads(lab.ssh("node1", "ovsdb-client", "transact", state, f"'{json.dumps(select)}'"))[0]["rows"]
    return {row["name"]: json.loads(row["spec"])["layer2_topology_version"] for row in rows}


def unreached(lab):
    """Pairs of workload and address without an answer; who does not answer is asked again, with more patience."""
    targets = " ".join(TARGETS)
    loop = (
        f"for space in $(ip netns list | grep -o ^{NETWORK}_[a-z0-9]*); do for target in {targets}; do "
        "for patience in 2 5 10 20; do ip netns exec $space ping -c 2 -i 0.05 -W $patience $target > /dev/null && "
        "continue 2; done; echo $space $target; done; done"
    )
    processes = {
        node: subprocess.Popen(
            ["ssh", "-F", str(lab.directory / "ssh_config"), node, loop], stdout=subprocess.PIPE, text=True
        )
        for node in NODES
    }
    return {node: lines for node, process in processes.items() if (lines := process.communicate()[0].splitlines())}


def measured():
    """What became of the traffic of the last run, by kind and protocol: sent and lost, without what moves cost."""
    report = json.loads((REPORT / "upgrade_layer2.json").read_text())
    found = {}
    for row in report["traffic"]["kinds"]:
        one = found.setdefault((row["kind"], row["protocol"]), [0, 0])
        one[0] += row["sent"]
        one[1] += row["lost"] - row["lost_by_moves"]
    return report, found


def disproportionate(found):
    """The kinds of traffic of `measured` that lost more than a network that is not changed lost at the same time."""
    sent, lost = found["comparison", "udp"]
    tolerated = TOLERATED / 100 + UNEVEN * lost / sent
    return {kind: counts for kind, counts in found.items() if counts[1] > counts[0] * tolerated}


def old_objects(lab):
    """Objects of the old topology, and of the time between, by node."""
    pattern = re.compile(r"^(?:(?:stor|rtos)-\S+_ovn_layer2_switch\S*|\S+-upgrade)$", re.MULTILINE)
    found = {}
    for node in NODES:
        listed = lab.ssh(node, "ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Switch_Port")
        listed += lab.ssh(node, "ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Router_Port")
        found[node] = pattern.findall(listed)
    return found


@pytest.fixture(scope="module")
def reduced(request):
    """Options of a run before the last one that is to end normally, of one that is disturbed, and of the last one.

    A userspace datapath takes more than one processor for packets every 10 ms, which the upgrade then waits for.
    """
    if request.config.option.markexpr != "not long":
        return (), (), ()
    traffic = ("-e", "heddle_upgrade_traffic=false")
    return traffic, (*traffic, "-e", "heddle_upgrade_verify=false"), ("-e", "heddle_upgrade_traffic_interval=50")


@pytest.fixture(scope="module", autouse=True)
def steered(lab, tmp_path_factory):
    """Another manifest set: workloads on two hosts that leave by the third one, with the address of a load balancer."""
    directory = tmp_path_factory.mktemp("steered")
    name = {"name": "out", "namespace": "steered"}
    documents = [
        {"apiVersion": "v1", "kind": "Service", "metadata": name,
         "spec": {"type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack", "selector": {"app": "out"},
                  "ports": [{"port": 80}]}},
        {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressService", "metadata": name,
         "spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "node2"}}}},
    ]  # fmt: skip
    text = GREEN.replace("green", "steered")
    for node in ("node1", "node3"):
        text += workload("steered", f"on-{node}", node).replace("steered}", "steered, labels: {app: out}}")
    text += "".join(f"---\n{json.dumps(one)}\n" for one in documents)
    (directory / "steered.yml").write_text(text)
    run = lab.play("networks.yml", *OLD, "-e", "heddle_manifest_set=steered", manifests=directory)
    assert run.changed["node1"]


def test_the_preflight_shows_all_moves_and_changes_nothing(lab):
    before = lab.dump()
    run = lab.play("upgrade_layer2.yml", "--check")
    assert re.search(rf"{NETWORK}/vm1 +netns +\S+ +node1 +node[23]", run.output)
    assert not any(run.changed.values())
    assert lab.dump() == before
    assert set(versions(lab).values()) == {"1.0"}
    assert not unreached(lab)


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param("Move the workloads of the nodes in the state", marks=pytest.mark.long),
        "Apply the plan to the nodes that go first",
    ],
)
def test_killed_run(lab, cut, reduced):
    disturbed(PLAYBOOK, cut, kill_run, *GATEWAY_MODE, "-e", ONLY.format("node1"), *reduced[1])
    # Whatever was left undone, all workloads reach each other.
    assert not unreached(lab)


def test_killed_run_is_completed_by_the_next_one_with_dying_daemons(lab, reduced):
    def kill_daemons(_process):
        for node, daemon in zip(NODES, ("ovn-northd", "ovn-controller", "ovs-vswitchd"), strict=True):
            lab.ssh(node, f"kill -9 $(cat /run/*/{daemon}.pid)")

    node1 = ("-e", ONLY.format("node1"))
    words = "Apply the plan to the nodes that go first"
    disturbed(PLAYBOOK, words, kill_daemons, *GATEWAY_MODE, *node1, *reduced[1])
    lab.play("upgrade_layer2.yml", *node1, *reduced[0])
    assert versions(lab) == {"node1": "2.0", "node2": "1.0", "node3": "1.0"}
    assert not unreached(lab)
    found = old_objects(lab)
    assert any(name.endswith("-upgrade") for name in found["node1"])
    assert not any(name.endswith("-upgrade") for name in found["node2"] + found["node3"])


def test_rollback_of_a_node_is_kept_by_the_same_manifests(lab, reduced):
    back = ("-e", ONLY.format("node1"), "-e", "heddle_upgrade_topology=gateway-router")
    lab.play("upgrade_layer2.yml", *back, *reduced[0])
    if not reduced[0]:
        # As little as on the way there.
        report, found = measured()
        assert not report["traffic"]["problems"]
        assert found.keys() >= KINDS
        assert not disproportionate(found), found
    assert set(versions(lab).values()) == {"1.0"}
    assert not unreached(lab)
    again = lab.play("networks.yml", *OLD)
    assert not any(again.changed.values()), again.output[-4000:]


@pytest.mark.long
def test_node_failure_is_reported_and_the_next_run_continues(lab):
    nodes = '{"heddle_upgrade_nodes": ["node1", "node2"]}'
    output = disturbed(
        PLAYBOOK,
        "Stop the workloads there and start them elsewhere",
        lambda _process: lab.verb("kill", "node3"),
        *(*GATEWAY_MODE, "-e", nodes),
    )
    try:
        assert re.search(r"^node3 +: .*unreachable=1", output, re.MULTILINE), output[-4000:]
        report, _found = measured()
        assert any("node3" in line for line in report["failures"] + report["traffic"]["problems"])
    finally:
        lab.verb("start", "node3")
    lab.play("upgrade_layer2.yml", "-e", nodes)
    assert versions(lab) == {"node1": "2.0", "node2": "2.0", "node3": "1.0"}
    placed = {node: lab.ssh(node, "ip", "netns", "list").count(f"{NETWORK}_") for node in NODES}
    assert placed["node1"]
    assert placed["node3"]
    assert not unreached(lab)


def test_the_last_node_and_the_clean_up(lab, reduced):
    # With the wait for neighbour caches of workloads: the loss is that of a real upgrade.
    lab.play("upgrade_layer2.yml", *reduced[2])
    report, found = measured()
    assert not report["traffic"]["problems"]
    assert found.keys() >= KINDS
    assert not disproportionate(found), found
    assert (REPORT / "upgrade_layer2.html").stat().st_size
    assert set(versions(lab).values()) == {"2.0"}
    assert not unreached(lab)
    assert old_objects(lab) == {node: [] for node in NODES}
    again = lab.play("upgrade_layer2.yml")
    assert not any(again.changed.values())
    assert measured() == (report, found)
    refused = lab.play("upgrade_layer2.yml", "-e", "heddle_upgrade_topology=gateway-router", success=False)
    assert "it cannot be restored" in refused.output
    lab.play("audit.yml")
