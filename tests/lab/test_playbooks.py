# SPDX-License-Identifier: Apache-2.0
"""Operations on a converged lab: change, check, remove, invalid manifests, loss of a host."""

import json
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests import supervised
from tests.lab.conftest import MANIFESTS, PATIENCE, ROOT
from tests.lab.green_network import NAMESPACE, NETWORK

# What is in the namespace: its network, and a workload on each of two nodes.
CONTENT = (
    NETWORK
    + """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: g1, namespace: green}
spec: {node: node1}
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: g3, namespace: green}
spec: {node: node3}
"""
)
SEPARATE = NAMESPACE + CONTENT


@pytest.fixture
def manifests(tmp_path):
    return shutil.copytree(MANIFESTS, tmp_path / "manifests")


def revision(lab):
    rows = lab.ssh(
        "node1", "ovsdb-client", "-f", "json", "dump", "unix:/run/heddle-state/heddle.sock", "Heddle", "Cluster"
    )
    table = json.loads(rows)
    return table["data"][0][table["headings"].index("revision")]


def test_check_and_diff_show_nothing_when_converged(lab):
    run = lab.play("site.yml", "--check", "--diff")
    assert set(run.changed.values()) == {0}, run.output[-4000:]
    assert "+++" not in run.output


def test_all_errors_are_reported_and_nothing_is_written(lab, manifests):
    before, known = lab.dump(), revision(lab)
    (manifests / "bad.yml").write_text(
        "kind: UserDefinedNetwork\nmetadata: {name: net, namespace: red}\n"
        "spec: {topology: Layer2, role: Primary, subnets: [10.0.0.0/33], sise: 3}\n"
        "---\nkind: Nonsense\nmetadata: {name: x}\n"
        "---\n- [malformed\n"
    )
    run = lab.play("site.yml", manifests=manifests, success=False)
    assert run.code == 2
    for fragment in ("bad.yml:3", "sise", "CIDR is invalid", "bad.yml:5", "Nonsense", "document 3"):
        assert fragment in run.output, fragment
    assert (lab.dump(), revision(lab)) == (before, known)


def test_validation_errors_are_found_before_any_host_is_touched(lab, manifests):
    known = revision(lab)
    (manifests / "bad.yml").write_text(SEPARATE.replace("node3", "node9"))
    run = lab.play("site.yml", manifests=manifests, success=False)
    assert run.code == 2
    assert "node node9 is not in the inventory" in run.output
    assert revision(lab) == known
    assert set(run.changed) == {"localhost"}


def test_admission_errors_are_found_before_anything_is_written(lab, manifests):
    before, known = lab.dump(), revision(lab)
    label = 'labels: {k8s.ovn.org/primary-user-defined-network: ""}'
    plain = (manifests / "default.yml").read_text().replace("name: plain\n", f"name: plain\n  {label}\n", 1)
    (manifests / "default.yml").write_text(plain)
    (manifests / "bad.yml").write_text(CONTENT)
    run = lab.play("networks.yml", manifests=manifests, success=False)
    assert run.code == 2
    for fragment in ("label cannot be added/removed after the namespace was created", "namespace green does not exist"):
        assert fragment in run.output, fragment
    assert (lab.dump(), revision(lab)) == (before, known)


def test_unreachable_host_is_completed_by_the_next_run(lab, manifests):
    before = lab.dump()
    (manifests / "green.yml").write_text(SEPARATE)
    lab.verb("kill", "node3")
    try:
        run = lab.play("networks.yml", "--timeout", "60", manifests=manifests, success=False)
    finally:
        lab.verb("start", "node3")
    assert run.code != 0
    assert run.unreachable == ["node3"]
    assert "were not brought to the plan: node3" in run.output
    assert "green_g1" in lab.ssh("node1", "ip", "netns", "list")

    lab.play("networks.yml", manifests=manifests)
    lab.wait_for_answers("node1", "green_g1", "10.0.0.4")
    (manifests / "green.yml").unlink()
    lab.play("networks.yml", manifests=manifests)
    # Soon after its start ovn-controller keeps patch ports that it does not need any more (OVN, `patch.c`), until it
    # looks again.
    for _attempt in attempts(PATIENCE):
        lab.ssh("node3", "ovn-appctl", "-t", "ovn-controller", "inc-engine/recompute")
        if lab.dump() == before:
            break
    assert lab.dump() == before


# Each is the first sign of what is cut off: after it, the task whose name stands there is under way.
CUTS = ("Admit the manifests and compute the plan", "Apply topology, gateways and workloads of this host")

# Kills the process that writes to the host as soon as the network's logical switch exists.
KILL_THE_WRITER = """
until ovn-nbctl --bare --columns=name list Logical_Switch | grep -q green; do :; done
for opened in /proc/[0-9]*/fd/*; do
    [ "$(readlink "$opened")" != /run/heddle/lock ] || kill -9 "$(echo "$opened" | cut -d/ -f3)"
done
"""


def test_killed_runs_are_completed_by_the_next_one(lab, manifests):
    (manifests / "green.yml").write_text(SEPARATE)
    command = [str(ROOT / "scripts" / "play"), "playbooks/networks.yml", "-e", f"heddle_manifests={manifests}"]
    # The cuts are task names in Ansible's default output.
    environment = {**os.environ, "HEDDLE_VERBOSE": "1", "HEDDLE_LOG_DIRECTORY": ""}
    for cut in CUTS:
        with supervised.running(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as run:
            assert any(cut in line for line in run.stdout), cut
            run.send_signal(signal.SIGKILL)
            run.stdout.close()
    lab.play("networks.yml", manifests=manifests)
    lab.wait_for_answers("node1", "green_g1", "10.0.0.4")
    assert set(lab.play("networks.yml", manifests=manifests).changed.values()) == {0}
    lab.play("networks.yml")


def test_partially_applied_host_is_completed_by_the_same_run(lab, manifests):
    """The service's copy is killed; the process that called it then does the work itself."""
    (manifests / "green.yml").write_text(SEPARATE)
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(lab.ssh, "node3", KILL_THE_WRITER)
        lab.play("networks.yml", manifests=manifests)
        killed.result()
    lab.wait_for_answers("node1", "green_g1", "10.0.0.4")
    assert set(lab.play("networks.yml", manifests=manifests).changed.values()) == {0}
    lab.play("networks.yml")


# As a run leaves a host that was cut off between writing the drop-in and restarting the daemon.
CUT_OFF_INSTALLATION = """
drop_in=/etc/systemd/system/ovn-northd.service.d/heddle-threads.conf
text=$(cat "$drop_in")
sed -i s/n-threads=2/n-threads=1/ "$drop_in"
systemctl daemon-reload
systemctl restart ovn-northd
echo "$text" > "$drop_in"
"""


@pytest.mark.long
def test_daemons_get_the_settings_that_a_run_wrote_before_it_was_cut_off(lab):
    def threads() -> str:
        return lab.ssh("node2", "ovn-appctl", "-t", "ovn-northd", "parallel-build/get-n-threads").strip()

    lab.ssh("node2", "sh", "-euc", CUT_OFF_INSTALLATION)
    assert threads() == "1"
    limit = ("--limit", "node2,localhost")
    check = lab.play("install.yml", "--check", "--diff", *limit)
    assert "runs with former files" in check.output
    assert check.changed["node2"]
    assert threads() == "1"
    assert lab.play("install.yml", *limit).changed["node2"]
    assert threads() == "2"
    again = lab.play("install.yml", *limit)
    assert set(again.changed.values()) == {0}, again.output[-4000:]
