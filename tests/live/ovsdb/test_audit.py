# SPDX-License-Identifier: Apache-2.0
"""The audit of a host whose databases are real and lack what the plan wants: few causes explain all of it."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis import chassis
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.values import Scope
from ansible_collections.heddle.ovn.plugins.module_utils.qemu import instance
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import TABLES, render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit import compare
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.tables import cause_lines
from tests.live.conftest import Server, stop
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

NETWORK = namespace("nowhere") + layer2("nowhere", "net", "10.0.0.0/24") + workload("nowhere", "w2", "node2")
PLAN = plan_of(NETWORK + workload("nowhere", "w1", "node1"))
ARGUMENTS = {
    "name": "node1", "encap_ips": ["198.18.1.11"], "datapath": "system", "underlay_interface": None,
    "provider": None, "physical_networks": {}, "owner": "heddle:chassis",
}  # fmt: skip


@pytest.fixture
def audited(northbound, southbound, vswitch, monkeypatch):
    """A function that audits node1; its Open vSwitch has no bridge, its Northbound database is as planned."""
    pytest.importorskip("pyroute2")
    vswitch.transact({
        "op": "insert", "table": "Open_vSwitch",
        "row": {"external_ids": ["map", [["system-id", "chassis-of-node1"]]]},
    })  # fmt: skip
    rows, scope = render_northbound(PLAN, "node1"), Scope(tables=frozenset(TABLES))
    with northbound.client() as client:
        reconcile(client, "OVN_Northbound", rows, owner=f"{PLAN['deployment']}:topology", scope=scope)
    for name, server in (
        ("NORTHBOUND_REMOTE", northbound),
        ("SOUTHBOUND_REMOTE", southbound),
        ("VSWITCH_REMOTE", vswitch),
    ):
        monkeypatch.setattr(compare, name, server.remote)
    monkeypatch.setattr(chassis, "VSWITCH_REMOTE", vswitch.remote)
    monkeypatch.setattr(compare, "read_host", lambda: {"node": "node1", "chassis": ARGUMENTS})
    monkeypatch.setattr(compare, "stopped_of", lambda _plan: {})
    return lambda: compare.Comparison(PLAN, "node1").result()


def cause_of(result: dict, kind: str, name: str) -> str:
    """Return the kind and name of what explains an object that is missing."""
    (entry,) = (
        one for one in result["drift"] if (one["kind"], one["name"], one["column"]) == (kind, name, None)
    )  # fmt: skip
    cause = result["causes"][entry["cause"]]
    return f"{cause['kind']} {cause['name']}"


def test_a_missing_integration_bridge_explains_the_ports_on_it(audited):
    result = audited()
    ports = [one["name"] for one in result["drift"] if one["kind"] == "Port" and one["name"].endswith("_h")]
    assert len(ports) == 2
    for name in (*ports, "br-int"):
        assert cause_of(result, "Port", name) == "Bridge br-int"
        assert cause_of(result, "Interface", name) == "Bridge br-int"
    assert [one["name"] for one in result["drift"] if one["kind"] == "Bridge"] == ["br-int"]


@pytest.mark.usefixtures("audited")
def test_rows_of_a_network_that_is_not_on_the_host_have_one_cause():
    result = compare.Comparison(plan_of(NETWORK), "node1").result()
    assert cause_of(result, "Logical_Switch", "nowhere_net_ovn_layer2_switch") == "network nowhere_net"
    assert cause_of(result, "Logical_Router", "nowhere_net_transit_router") == "network nowhere_net"


@pytest.mark.usefixtures("audited")
def test_a_virtual_machine_that_does_not_run_is_drift(tmp_path, monkeypatch):
    monkeypatch.setattr(instance, "RUNTIME", tmp_path)
    machines = (workload("nowhere", f"v{number}", f"node{number}, kind: vm") for number in (1, 2))
    result = compare.Comparison(plan_of(NETWORK + "".join(machines)), "node1").result()
    missing = [(one["kind"], one["name"]) for one in result["drift"] if one["substrate"] == "hypervisor"]
    assert missing == [("virtual machine", "nowhere_v1")]
    assert cause_of(result, "virtual machine", "nowhere_v1") == "virtual machine nowhere_v1"
    (tap,) = (one for one in result["drift"] if one["kind"] == "tap")
    assert (tap["network"], tap["found"]) == ("nowhere_net", None)


def test_a_missing_setting_of_ovn_controller_is_drift(audited):
    (found,) = (one for one in audited()["drift"] if one["column"] == "external_ids")
    assert found["expected"]["ovn-encap-ip"] == "198.18.1.11"


def test_another_encapsulation_than_that_of_the_plan_is_drift(audited, vswitch):
    """The install playbook leaves it as it is: only the plan has it."""

    def found() -> list[tuple[dict, dict]]:
        drift = [one for one in audited()["drift"] if "ovn-encap-type" in (one["expected"] or {})]
        return [(one["expected"]["ovn-encap-type"], (one["found"] or {}).get("ovn-encap-type")) for one in drift]

    def chosen(kind: str) -> None:
        mutations = [
            ["external_ids", "delete", ["set", ["ovn-encap-type"]]],
            ["external_ids", "insert", ["map", [["ovn-encap-type", kind]]]],
        ]
        vswitch.transact({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": mutations})

    chosen("vxlan")
    assert ("geneve", "vxlan") in found()
    chosen("geneve")
    assert found() == []


def test_a_deleted_switch_explains_its_ports(audited, northbound):
    switch = "nowhere_net_ovn_layer2_switch"
    before = audited()
    assert not [one for one in before["drift"] if one["substrate"] == "OVN_Northbound"]
    northbound.transact({"op": "delete", "table": "Logical_Switch", "where": [["name", "==", switch]]})
    result = audited()
    lost = [one["name"] for one in result["drift"] if one["kind"] == "Logical_Switch_Port"]
    assert len(lost) >= 2
    assert {cause_of(result, "Logical_Switch_Port", name) for name in lost} == {f"Logical_Switch {switch}"}
    assert [line for line in cause_lines(result) if f"{switch} (network nowhere_net): missing; explains" in line]


def test_a_missing_table_is_one_problem_and_hides_no_other_part(audited, tools, folder, monkeypatch):
    """As in the database of an older OVN."""
    schema = json.loads(tools.schema("OVN_Northbound").read_text())
    del schema["tables"]["Static_MAC_Binding"]
    older = folder / "older"
    older.mkdir()
    (older / "schema").write_text(json.dumps(schema))
    server = Server(tools, older, "OVN_Northbound", older / "schema")
    try:
        monkeypatch.setattr(compare, "NORTHBOUND_REMOTE", server.remote)
        result = audited()
    finally:
        stop(server.process)
    (problem,) = (line for line in result["problems"] if "OVN_Northbound" in line)
    assert "Static_MAC_Binding" in problem
    assert not [one for one in result["drift"] if one["substrate"] == "OVN_Northbound"]
    assert [one for one in result["drift"] if one["kind"] == "Bridge"]


def test_an_address_that_the_plan_does_not_have_is_a_note(audited, monkeypatch):
    assert audited()["notes"] == []
    plan = plan_of(namespace("nowhere"), hosts=with_gateways("shared"))
    found = {**plan["nodes"]["node1"]["gateway"], "addresses": ["192.0.2.99/24"]}
    monkeypatch.setattr(compare, "apply_chassis", lambda _arguments, **_options: (Outcome(), {"gateway": found}))
    (note,) = compare.Comparison(plan, "node1").result()["notes"]
    assert "192.0.2.99/24; in the plan: 192.0.2.11/24, 2001:db8::b/64. Run heddle.ovn.networks" in note


def test_another_system_id_is_a_problem(audited, vswitch):
    mutations = [["external_ids", "delete", ["set", ["system-id"]]]]
    vswitch.transact({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": mutations})
    assert [line for line in audited()["problems"] if "in the plan it is chassis-of-node1" in line]
