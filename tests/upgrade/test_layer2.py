# SPDX-License-Identifier: Apache-2.0
"""The whole upgrade of Layer2 networks on real hosts: cut off, completed, taken back, completed for good.

The tests build on each other, in this order. After each stage every workload of one network is asked to reach its
neighbours, its gateway, the join addresses of all nodes and the host outside, in both families; the playbook itself
sends packets between all workloads besides.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest

from tests.lab.conftest import NODES, ROOT

NETWORK = "test12"
TARGETS = (
    "203.203.0.1", "203.203.0.3", "203.203.0.4", "203.203.0.5", "100.65.0.2", "100.65.0.3", "100.65.0.4",
    "2010:100:200::1", "2010:100:200::3", "2010:100:200::4", "2010:100:200::5", "fd99::2", "fd99::3", "fd99::4",
)  # fmt: skip
OLD = ["-e", '{"heddle_settings": {"layer2_topology": "gateway-router"}}']
ONLY = '{{"heddle_upgrade_nodes": ["{}"]}}'


def versions(lab):
    state = "unix:/run/heddle-state/heddle.sock"
    select = ["Heddle", {"op": "select", "table": "Object", "where": [["kind", "==", "Node"]]}]
    rows = json.loads(lab.ssh("node1", "ovsdb-client", "transact", state, f"'{json.dumps(select)}'"))[0]["rows"]
    return {row["name"]: json.loads(row["spec"])["layer2_topology_version"] for row in rows}


def unreached(lab):
    """Who does not get an answer from whom."""
    targets = " ".join(TARGETS)
    loop = (
        f"'for space in $(ip netns list | grep -o ^{NETWORK}_[a-z0-9]*); do for target in {targets}; do "
        "ip netns exec $space ping -c 2 -i 0.05 -W 2 $target > /dev/null || echo $space $target; done; done'"
    )
    processes = {
        node: subprocess.Popen(
            ["ssh", "-F", str(lab.directory / "ssh_config"), node, loop.strip("'")], stdout=subprocess.PIPE, text=True
        )
        for node in NODES
    }
    return {node: lines for node, process in processes.items() if (lines := process.communicate()[0].splitlines())}


def old_objects(lab):
    """Objects of the old topology, and of the time between, by node."""
    pattern = re.compile(r"^(?:(?:stor|rtos)-\S+_ovn_layer2_switch\S*|\S+-upgrade)$", re.MULTILINE)
    found = {}
    for node in NODES:
        listed = lab.ssh(node, "ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Switch_Port")
        listed += lab.ssh(node, "ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Router_Port")
        found[node] = pattern.findall(listed)
    return found


def test_the_preflight_shows_all_moves_and_changes_nothing(lab):
    before = lab.dump()
    run = lab.play("upgrade_layer2.yml", "--check")
    assert re.search(rf"{NETWORK}/vm1 +netns +\S+ +node1 +node[23]", run.output)
    assert not any(run.changed.values())
    assert lab.dump() == before
    assert set(versions(lab).values()) == {"1.0"}
    assert not unreached(lab)


@pytest.mark.parametrize(
    "cut", ["Give the workloads of the nodes another place", "Change first the nodes that the others can do without"]
)
def test_a_run_that_is_killed_anywhere(lab, cut):
    command = [str(ROOT / "scripts" / "play"), "playbooks/upgrade_layer2.yml", "-e", ONLY.format("node1")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    for line in process.stdout:
        if cut in line:
            os.killpg(process.pid, signal.SIGKILL)
            break
    process.wait()
    assert process.returncode == -signal.SIGKILL, f"it ended before {cut!r}"
    # Whatever was left where it was, nobody has lost anybody.
    assert not unreached(lab)


def test_is_completed_by_the_next_one(lab):
    lab.play("upgrade_layer2.yml", "-e", ONLY.format("node1"))
    assert versions(lab) == {"node1": "2.0", "node2": "1.0", "node3": "1.0"}
    assert not unreached(lab)
    found = old_objects(lab)
    assert any(name.endswith("-upgrade") for name in found["node1"])
    assert not any(name.endswith("-upgrade") for name in found["node2"] + found["node3"])


def test_a_node_goes_back_and_the_manifests_change_nothing_of_it(lab):
    lab.play("upgrade_layer2.yml", "-e", ONLY.format("node1"), "-e", "heddle_upgrade_topology=gateway-router")
    assert set(versions(lab).values()) == {"1.0"}
    assert not unreached(lab)
    again = lab.play("networks.yml", *OLD)
    assert not any(again.changed.values()), again.output[-4000:]


def test_workloads_on_a_node_of_either_kind(lab):
    lab.play("upgrade_layer2.yml", "-e", '{"heddle_upgrade_nodes": ["node1", "node2"]}')
    assert versions(lab) == {"node1": "2.0", "node2": "2.0", "node3": "1.0"}
    placed = {node: lab.ssh(node, "ip", "netns", "list").count(f"{NETWORK}_") for node in NODES}
    assert placed["node1"]
    assert placed["node3"]
    assert not unreached(lab)


def test_the_last_node_and_the_clean_up(lab):
    lab.play("upgrade_layer2.yml")
    assert set(versions(lab).values()) == {"2.0"}
    assert not unreached(lab)
    assert old_objects(lab) == {node: [] for node in NODES}
    again = lab.play("upgrade_layer2.yml")
    assert not any(again.changed.values())
    refused = lab.play("upgrade_layer2.yml", "-e", "heddle_upgrade_topology=gateway-router", success=False)
    assert "there is no way back to it" in refused.output
    lab.play("audit.yml")
