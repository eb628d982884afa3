# SPDX-License-Identifier: Apache-2.0
"""What the modules `audit`, `chassis`, `topology`, `workload` and `reachability` report on a converged lab."""

import json
import os
import shlex
import subprocess

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.tables import cause_lines
from tests import supervised
from tests.lab.conftest import NODES, REPORT, ROOT
from tests.lab.test_durability import audit_is_clean


def module(host, name, arguments, *flags):
    """Run one module on a host and return its result."""
    command = [
        str(ROOT / ".venv" / "bin" / "ansible"),
        host,
        "-o",
        "-m",
        name,
        "-a",
        json.dumps(arguments),
    ]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    done = supervised.run([*command, *flags], cwd=ROOT, env=environment, stderr=subprocess.PIPE)
    line = next((line for line in done.stdout.splitlines() if " => " in line), None)
    assert line, done.stdout + done.stderr
    return json.loads(line.partition(" => ")[2])


def nbctl(lab, *arguments):
    return lab.ssh("node1", "ovn-nbctl", *arguments).strip()


def test_a_converged_fleet_has_no_drift(lab):
    run = lab.play("audit.yml")
    assert set(run.changed.values()) == {0}


def test_drift_is_reported_by_audit_and_check_mode_and_repaired_by_a_run(lab):
    port = "red.red_red_red1"
    addresses = nbctl(lab, "get", "Logical_Switch_Port", port, "addresses")
    route = nbctl(lab, "--bare", "--columns=_uuid", "find", "Logical_Router_Static_Route", "ip_prefix=10.128.1.0/24")
    nbctl(lab, "lsp-set-addresses", port, "unknown")
    nbctl(lab, "remove", "Logical_Router", "red_red_ovn_cluster_router", "static_routes", route)
    nbctl(lab, "ls-add", "somebodys-switch")
    try:
        audit = lab.play("audit.yml", success=False)
        assert audit.code == 2
        report = json.loads((REPORT / "audit.json").read_text())
        text = json.dumps(report)
        for fragment in (port, "addresses", "red_red_ovn_cluster_router dst-ip 10.128.1.0/24", "somebodys-switch"):
            assert fragment in text, fragment
        assert nbctl(lab, "get", "Logical_Switch_Port", port, "addresses") == "[unknown]"

        announced = lab.play("networks.yml", "--check", "--diff")
        assert announced.changed["node1"] == 1
        assert addresses.strip('[]"') in announced.output
        assert nbctl(lab, "get", "Logical_Switch_Port", port, "addresses") == "[unknown]"
        repaired = lab.play("networks.yml")
        assert repaired.changed["node1"] == 1
        assert nbctl(lab, "get", "Logical_Switch_Port", port, "addresses") == addresses
        assert "somebodys-switch" in nbctl(lab, "ls-list")
        lab.play("audit.yml")
        assert lab.play("audit.yml", "-e", "heddle_audit_foreign=fail", success=False).code == 2
    finally:
        nbctl(lab, "--if-exists", "ls-del", "somebodys-switch")
        lab.play("networks.yml")


def what_is_on_node1(lab):
    """Return rows, flows, rules and routes of the first node, without counters."""
    return {
        "rows": lab.dump()["node1"],
        "flows": lab.provider_flows("node1"),
        "rules": lab.ssh("node1", "nft", "-s", "list", "table", "inet", "heddle"),
        "routes": lab.ssh("node1", "ip", "route", "show", "proto", "85"),
        "routes of a workload": lab.ssh("node1", "ip", "-n", "red_red1", "route"),
    }


@pytest.mark.parametrize("service", ["start", "stop"])
def test_whatever_is_removed_by_hand_comes_back_with_the_next_run(lab, service):
    """With the service, which answers for the modules, and without it."""
    lab.play("networks.yml")
    before = what_is_on_node1(lab)
    lab.ssh("node1", "systemctl", service, "heddle-host")
    try:
        for command in (
            "ovn-nbctl lsp-del red.red_red_red1",
            "ovs-ofctl del-flows br-ex cookie=0x304/-1",
            "nft delete table inet heddle",
            "ip route del 10.96.0.0/16",
            "ip -n red_red1 route del 10.96.0.0/16",
        ):
            lab.ssh("node1", *command.split())
        # The daemon of the mesh stops with the service; each of them is started by a task of its own.
        tasks = {"start": 1, "stop": 3}[service]
        assert lab.play("networks.yml").changed == {"localhost": 0, "node1": tasks, "node2": 0, "node3": 0}
        assert what_is_on_node1(lab) == before
        assert lab.ssh("node1", "heddle-host", "running") == ""
        assert set(lab.play("networks.yml").changed.values()) == {0}
    finally:
        lab.ssh("node1", "systemctl", "start", "heddle-host")


def test_a_bridge_mapping_that_is_gone_is_the_one_cause_of_what_goes_with_it(lab):
    # Without its service, which would put the mapping back at once.
    lab.ssh("node2", "systemctl", "stop", "heddle-host")
    try:
        lab.ssh("node2", "ovs-vsctl", "remove", "Open_vSwitch", ".", "external_ids", "ovn-bridge-mappings")
        patches = "while ovs-vsctl list-ports br-ex | grep -q ^patch-; do sleep 0.2; done"
        lab.ssh("node2", "sh", "-c", shlex.quote(patches))
        assert lab.play("audit.yml", success=False).code == 2
        report = json.loads((REPORT / "audit.json").read_text())["hosts"]["node2"]
        assert sum(one["drift"] for one in report["causes"]) == len(report["drift"]) > 50
        largest = max(report["causes"], key=lambda one: one["drift"])
        assert "ovn-bridge-mappings" in largest["expected"]
        assert largest["drift"] == len(report["drift"])
        lines = cause_lines(report)
        assert len(lines) <= 20
        assert "ovn-bridge-mappings=physnet:br-ex" in lines[0]
        assert "explains" in lines[0]
    finally:
        lab.ssh("node2", "systemctl", "start", "heddle-host")
    audit_is_clean(lab)


@pytest.mark.long
def test_verify_names_the_pairs_of_a_broken_network(lab):
    lab.ssh("node2", "ip", "netns", "exec", "red_red2", "ip", "link", "set", "ovn-udn1", "down")
    try:
        broken = lab.play("verify.yml", success=False)
        assert broken.code == 2
        assert "red/red1" in broken.output
        assert "red/red2" in broken.output
        report = json.loads((REPORT / "verify.json").read_text())
        assert not report["passed"]
    finally:
        lab.play("networks.yml")
    lab.play("verify.yml")


def zone(lab):
    """Return the arguments that apply to node2 the plan that it has."""
    return {"node": "node2", "document": pack(json.loads(lab.ssh("node2", "cat", "/var/lib/heddle/plan.json")))}


def test_single_modules_change_nothing_on_a_converged_host(lab):
    for part in ("topology", "gateway", "workloads"):
        assert not module("node2", "heddle.ovn.zone", {**zone(lab), "parts": [part]})["changed"]
    arguments = json.loads(lab.ssh("node2", "cat", "/var/lib/heddle/host.json"))["chassis"]
    assert arguments["provider"]["uplink"] == "eth2"
    known = module("node2", "heddle.ovn.chassis", arguments)
    assert not known["changed"]
    assert known["chassis"] in lab.ssh("node2", "ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:system-id")


def test_modules_report_missing_parts(lab):
    planned = zone(lab)
    assert "node9 is not in the plan" in module("node2", "heddle.ovn.zone", {**planned, "node": "node9"})["msg"]
    for document, reported in (("nonsense", "not a packed document"), (pack({"nodes": {}}), "not a plan")):
        assert reported in module("node2", "heddle.ovn.zone", {**planned, "document": document})["msg"]
    assert (
        "no plan in /nonexistent"
        in module("node2", "heddle.ovn.audit", {"node": "node2", "plan": "/nonexistent"})["msg"]
    )


def test_responders_leave_no_traces(lab):
    module("node3", "heddle.ovn.reachability", {"node": "node3", "state": "started"})
    assert module("node3", "heddle.ovn.reachability", {"node": "node3", "state": "stopped"})["changed"]
    assert not module("node3", "heddle.ovn.reachability", {"node": "node3", "state": "stopped"})["changed"]


def test_only_tunnels_and_ssh_listen_on_the_network(lab):
    """And on node1 the lab's stand-in of an API server; the mesh on the underlay's address only.

    Services with `healthCheckNodePort` ask for a port on the provider network.
    """
    plan = lab.plan()
    services = [one for found in plan["services"].values() for one in found.values()]
    asked = {str(port) for one in services if (port := one.get("external", {}).get("health_check_port"))}
    assert len(asked) == 1
    for node in NODES:
        lines = lab.ssh(node, "ss", "-Hlntu").splitlines()
        mesh = f"{plan['nodes'][node]['encap_ips'][0]}:6783"
        addresses = {line.split()[4] for line in lines} - {mesh}
        ports = {one.rpartition(":")[2] for one in addresses if not one.startswith(("127.", "[::1]"))}
        assert ports <= {"22", "6081", "6784", *asked, *(["6443"] if node == "node1" else [])}, lines
