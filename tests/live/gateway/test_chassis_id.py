# SPDX-License-Identifier: Apache-2.0
"""A host that lost its system-id becomes the chassis of the plan again, under a real ovn-controller."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import topology
from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis import chassis_id
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import caught_up
from tests.live.conftest import start, stop, wait_for
from tests.live.gateway.conftest import Host
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

PLANNED, ADDRESS = "chassis-of-node1", "198.18.1.11"
MANIFESTS = namespace("red") + layer2("red", "net", "10.140.0.0/16") + workload("red", "w", "node1")


class Node:
    """node1 with its databases and daemons, brought to a plan by what the module `zone` calls for them."""

    def __init__(self, machine: Host, northbound, southbound, file: Path) -> None:
        self.machine, self.northbound, self.southbound, self.file = machine, northbound, southbound, file
        self.plan = plan_of(MANIFESTS, hosts=with_gateways("shared"))
        machine.start(southbound)
        assert self.apply().changed

    def apply(self, *, write: bool = True):
        """Apply the topology; a chassis that does not register makes it fail after the timeout."""
        return topology.apply_topology(NodeContext("node1", "", write, timeout=60), self.plan)

    def system_id(self) -> str:
        with self.machine.vswitch.client() as client:
            return chassis_id.identifiers(client).get("system-id", "")

    def chassis(self) -> set[str]:
        """The names under which this host is registered."""
        encaps = {tuple(row["_uuid"]) for row in self.southbound.rows("Encap", "ip") if row["ip"] == ADDRESS}
        return {
            row["name"] for row in self.southbound.rows("Chassis", "name", "encaps") if tuple(row["encaps"]) in encaps
        }

    def caught_up(self) -> bool:
        with self.northbound.client() as client, self.southbound.client() as reader:
            return caught_up(client, reader)

    def restart_with(self, found: str, *, orderly: bool) -> None:
        """What a reboot does after the file was lost: another id, and ovn-controller starts with it."""
        controller = self.machine.processes.pop()
        if orderly:
            self.machine.tools.run("ovs-appctl", "-t", str(self.machine.folder / "controller.ctl"), "exit")
            controller.wait(60)
        else:
            stop(controller)
        self.file.unlink()
        self.machine.vsctl("set", "Open_vSwitch", ".", f"external_ids:system-id={found}")
        self.file.write_text(f"{found}\n")
        machine = self.machine
        remote = machine.vswitch.remote
        machine.processes.append(start(machine.tools, machine.folder, "controller", "ovn-controller", remote))


@pytest.fixture
def node(tools, folder, vswitch, northbound, southbound, northd, monkeypatch):
    monkeypatch.setenv("OVS_RUNDIR", str(folder))
    for name, server in (
        ("VSWITCH_REMOTE", vswitch),
        ("NORTHBOUND_REMOTE", northbound),
        ("SOUTHBOUND_REMOTE", southbound),
    ):
        monkeypatch.setattr(topology, name, server.remote)
    file = folder / "system-id.conf"
    monkeypatch.setattr(topology, "SYSTEM_ID_FILE", str(file))
    machine = Host(tools, folder, vswitch)
    yield Node(machine, northbound, southbound, file)
    for process in reversed(machine.processes):
        stop(process)


def test_a_host_that_keeps_its_id_is_left_alone(node) -> None:
    assert node.file.read_text() == f"{PLANNED}\n"
    before = node.southbound.rows("Chassis"), node.southbound.rows("Chassis_Private")
    assert not node.apply(write=False).changed
    assert not node.apply().changed
    assert (node.southbound.rows("Chassis"), node.southbound.rows("Chassis_Private")) == before


def test_another_id_at_run_time_is_put_back(node) -> None:
    node.machine.vsctl("set", "Open_vSwitch", ".", "external_ids:system-id=other")
    names = [str(change) for change in node.apply(write=False).changes]
    assert names == ["update Open_vSwitch Open_vSwitch system-id"]
    assert node.system_id() == "other"
    assert node.apply().changed
    assert (node.system_id(), node.chassis()) == (PLANNED, {PLANNED})
    assert not node.apply().changed


def test_a_lost_file_is_written_again_before_anything_reads_it(node) -> None:
    node.file.unlink()
    assert [str(change) for change in node.apply().changes] == [f"create file system-id {node.file}"]
    assert node.file.read_text() == f"{PLANNED}\n"


def test_an_ovn_controller_that_cannot_register_under_another_id_gets_its_own_again(node) -> None:
    node.restart_with("other", orderly=False)
    log = node.machine.folder / "controller.log"
    wait_for(lambda: "commit failed" in log.read_text(), "a refused registration")
    assert node.chassis() == {PLANNED}
    assert node.apply().changed
    assert (node.system_id(), node.file.read_text()) == (PLANNED, f"{PLANNED}\n")
    assert node.chassis() == {PLANNED}
    assert not node.apply().changed
    assert node.caught_up()


def test_what_was_registered_under_another_id_is_removed(node) -> None:
    # An ovn-controller that ends in order takes its registration along, so the next id is registered.
    node.restart_with("other", orderly=True)
    wait_for(lambda: node.chassis() == {"other"}, "the registration under the other id")
    assert "delete OVN_Southbound Chassis other" in [str(change) for change in node.apply(write=False).changes]
    assert node.chassis() == {"other"}
    assert node.apply().changed
    assert node.chassis() == {PLANNED}
    assert {row["name"] for row in node.southbound.rows("Chassis_Private", "name")} == {PLANNED}
    assert not node.apply().changed
    assert node.caught_up()


def test_a_plan_that_has_the_other_id_can_be_applied_too(node) -> None:
    """As of a run of an earlier release, which made the random id the plan's and then waited in vain."""
    node.restart_with("other", orderly=False)
    hosts = with_gateways("shared")
    hosts["node1"]["chassis"] = "other"
    node.plan = plan_of(MANIFESTS, hosts=hosts)
    assert node.apply().changed
    assert node.chassis() == {"other"}
    assert not node.apply().changed
    assert node.caught_up()


@pytest.mark.parametrize(
    ("text", "planned"),
    [
        ("", ""), ("{", ""), ("{}", ""),
        (json.dumps(plan_of(MANIFESTS)), PLANNED),
        (json.dumps({**plan_of(MANIFESTS), "nodes": {"node1": {"chassis": None}}}), ""),
        (json.dumps({**plan_of(MANIFESTS), "nodes": {"node2": {"chassis": "b"}}}), ""),
    ],
    ids=["no plan", "damaged", "no parts", "planned", "not known yet", "another node"],
)  # fmt: skip
def test_the_planned_id_is_read_from_the_plan_that_the_host_keeps(tmp_path, text, planned) -> None:
    file = tmp_path / "plan.json"
    if text:
        file.write_text(text)
    assert chassis_id.planned_chassis("node1", str(file)) == planned
