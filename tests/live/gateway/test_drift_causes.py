# SPDX-License-Identifier: Apache-2.0
"""What an audit finds when a real ovn-controller takes patch ports away has one cause."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import patch_port
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.switch import Switch
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.values import Scope
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Keys, Row
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit import causes
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.drift import drift
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.tables import cause_lines
from tests.live.conftest import wait_for
from tests.live.gateway.conftest import BRIDGE
from tests.pipeline import layer2, namespace, workload

MANIFESTS = "".join(
    namespace(name) + layer2(name, "net", f"10.{number}.0.0/16") + workload(name, "w", "node1")
    for number, name in enumerate(("red", "blue", "green"), start=140)
)
WANTED = {"ovn-bridge-mappings": f"physnet:{BRIDGE}", "system-id": "chassis-of-node1"}


def audited(machine, zone, **known) -> tuple[list[dict], list[dict]]:
    """Return the drift of node1 and its causes."""
    settings = [Row("Open_vSwitch", "host", {"external_ids": Keys(WANTED)}, match={})]
    with machine.vswitch.client() as client:
        outcome = reconcile(client, "Open_vSwitch", settings, owner="t", scope=Scope(tables=frozenset()), write=False)
        outcome += machine.apply(zone.plan, write=False)
        ports = Switch(client, machine.run).ports()
    parents = causes.parents_of(render_northbound(zone.plan, "node1"))
    host = causes.Host(parents=parents, ports=ports, networks=frozenset(zone.plan["networks"]), **known)
    entries = drift(outcome)
    return entries, causes.group(entries, host)[0]


def gone(machine, plan: dict) -> bool:
    """Whether ovn-controller and ovs-vswitchd have removed all patch ports."""
    with machine.vswitch.client() as client:
        ports = Switch(client, machine.run).ports()[BRIDGE]
    return not any(patch_port(name, "node1", BRIDGE) in ports for name in plan["networks"])


def test_a_bridge_mapping_explains_all_flows_of_its_bridge(host) -> None:
    machine, zone = host(MANIFESTS)
    assert audited(machine, zone) == ([], [])
    machine.vsctl("remove", "Open_vSwitch", ".", "external_ids", "ovn-bridge-mappings")
    wait_for(lambda: gone(machine, zone.plan), "the end of the patch ports")
    entries, found = audited(machine, zone)
    assert len(entries) > 50
    assert [one["drift"] for one in found] == [len(entries)]
    (line,) = cause_lines({"causes": found})
    assert f"external_ids: expected {{ovn-bridge-mappings=physnet:{BRIDGE}}}, found {{}}" in line
    assert f"explains {len(entries) - 1} more: openflow flow " in line


def test_a_deleted_bridge_explains_its_flows(host) -> None:
    machine, zone = host(MANIFESTS)
    machine.vsctl("del-br", BRIDGE)
    entries, _found = audited(machine, zone)
    ends = causes.Host(networks=frozenset(zone.plan["networks"]))
    bridge = {
        "substrate": "Open_vSwitch", "kind": "Bridge", "name": BRIDGE, "network": "", "column": None, "expected": {},
        "found": None,
    }  # fmt: skip
    found, places = causes.group([*entries, bridge], ends)
    assert set(places) == {0}
    assert found[0]["name"] == BRIDGE


def test_a_stopped_ovn_controller_explains_them_by_the_problem_that_reports_it(host) -> None:
    machine, zone = host(MANIFESTS)
    machine.tools.run("ovs-appctl", "-t", str(machine.folder / "controller.ctl"), "exit")
    for name in zone.plan["networks"]:
        machine.vsctl("del-port", BRIDGE, patch_port(name, "node1", BRIDGE))
    line = "ovn-controller does not run: systemctl start ovn-controller"
    entries, found = audited(machine, zone, stopped={"ovn-controller": line})
    assert [one["drift"] for one in found] == [len(entries)]
    assert cause_lines({"causes": found})[0].startswith(f"{line}; explains {len(entries)} more: openflow flow ")
