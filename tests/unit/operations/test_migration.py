# SPDX-License-Identifier: Apache-2.0
"""A virtual machine's move, as the state records it and as each host renders it; no QEMU."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack, unpack
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.workload.move import (
    MoveRefused,
    begin_move,
    end_move,
    moving_to,
)
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.workload.placement import node_of
from ansible_collections.heddle.ovn.plugins.module_utils.operations import ended_moves, migration
from ansible_collections.heddle.ovn.plugins.module_utils.operations.ended_moves import record_moved
from ansible_collections.heddle.ovn.plugins.module_utils.operations.migration import record_move, vm_name
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.plan.address_holders import holders
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.qemu import (
    render_additional_chassis,
    render_virtual_machines,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.vswitch import render_workload_ports
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import (
    THREE_NODES,
    decide,
    labelled,
    layer2,
    layer3,
    namespace,
    nodes,
    plan_of,
    stored,
    with_gateways,
    workload,
)
from tests.unit.controllers.test_egress_ips import egress_ip
from tests.unit.controllers.test_external_services import TENANTS, pool, service

PORT = "red.net_red_vm"
NETWORK = namespace("red") + layer2("red", "net", "10.0.0.0/24")
TEXT = NETWORK + workload("red", "vm", "node1").replace("node1", "node1, kind: vm") + workload("red", "web", "node1")
TEXT += workload("red", "zone3", "node3")
BEFORE = stored(TEXT)
MOVING, _MOVE = begin_move(BEFORE, "red/vm", "node2")
PLAN = build_plan(MOVING)


def location(snapshot):
    one = snapshot.objects["Workload/red/vm"]
    return node_of(one), moving_to(one)


def port_of(plan: dict, node: str):
    return next(row for row in render_northbound(plan, node) if row.key == PORT)


def test_migration_is_recorded_and_survives_the_same_manifests():
    assert location(MOVING) == ("node1", "node2")
    assert location(stored(TEXT, MOVING)) == ("node1", "node2")
    over = end_move(MOVING, "red/vm", "node2")
    assert location(over) == ("node2", None)
    assert location(stored(TEXT, over)) == ("node2", None)
    assert over.allocations == BEFORE.allocations
    back = end_move(MOVING, "red/vm", "node1")
    assert location(back) == ("node1", None)
    assert back.objects == BEFORE.objects


@pytest.mark.parametrize(
    ("snapshot", "node", "pending"),
    [(BEFORE, "node1", False), (BEFORE, "node2", True), (MOVING, "node2", True), (MOVING, "node1", True)],
)
def test_pending_actions(snapshot, node, pending):
    after, move = begin_move(snapshot, "red/vm", node)
    assert (move["from"], move["pending"]) == ("node1", pending)
    assert move["to"] == (moving_to(after.objects["Workload/red/vm"]) or node)


@pytest.mark.parametrize(
    ("snapshot", "name", "node", "why"),
    [
        (BEFORE, "red/none", "node2", "there is no workload red/none"),
        (BEFORE, "red/web", "node2", "is a network namespace"),
        (BEFORE, "red/vm", "elsewhere", "node elsewhere is not known as a chassis; these are: node1, node2, node3"),
        (MOVING, "red/vm", "node3", "finish that with to=node2, or take it back with to=node1"),
    ],
)
def test_refused(snapshot, name, node, why):
    with pytest.raises(MoveRefused, match=why.replace("(", r"\(")):
        begin_move(snapshot, name, node)


def test_waiting_workload_is_not_migrated():
    waiting = stored(namespace("red") + workload("red", "vm", "node1, kind: vm"))
    with pytest.raises(MoveRefused, match="waits and does not run yet"):
        begin_move(waiting, "red/vm", "node2")


def test_migration_ends_only_on_source_or_target():
    with pytest.raises(MoveRefused, match="is not migrating to node3"):
        end_move(MOVING, "red/vm", "node3")


def test_migrating_workload_does_not_change():
    for changed in ("node3, kind: vm", "node1, kind: vm, memory: 128"):
        _after, problems = decide(TEXT.replace("node1, kind: vm", changed), MOVING)
        assert [str(one) for one in problems if "cannot change while it moves from node1 to node2" in str(one)]


def test_migration_to_a_removed_node_ends():
    after = stored(TEXT, MOVING, hosts={name: reported for name, reported in THREE_NODES.items() if name != "node2"})
    assert location(after) == ("node1", None)
    assert render_additional_chassis(build_plan(after), "node3") == {PORT: None}


def test_manifest_node_overrides_a_finished_migration():
    over = end_move(MOVING, "red/vm", "node2")
    assert location(stored(TEXT.replace("node1, kind: vm", "node3, kind: vm"), over)) == ("node3", None)


@pytest.mark.parametrize(
    ("network", "reason"),
    [(layer3("red", "net", "10.0.0.0/16", 24), "NetworkOnOneNode"), ("", "PrimaryNetworkMissing")],
)
def test_a_virtual_machine_waits_for_a_network_that_spans_hosts(network, reason):
    labelled = namespace("red", primary=bool(network))
    after = stored(labelled + network + workload("red", "vm", "node1").replace("node1", "node1, kind: vm"))
    (condition,) = after.objects["Workload/red/vm"].status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert build_plan(after)["workloads"] == {}


def test_port_on_both_ends_with_activation_strategy():
    source, target, other = (port_of(PLAN, node).columns for node in ("node1", "node2", "node3"))
    assert (source["type"], source["options"]["requested-chassis"]) == ("", "chassis-of-node1")
    assert target["type"] == ""
    assert target["options"]["requested-chassis"] == "chassis-of-node1,chassis-of-node2"
    assert target["options"]["activation-strategy"] == "rarp"
    assert target["port_security"] == source["port_security"] == source["addresses"]
    assert target["dhcpv4_options"] == source["dhcpv4_options"]
    assert (other["type"], other["options"]["requested-chassis"]) == ("remote", "chassis-of-node1")
    for node, expected in (("node1", True), ("node2", True), ("node3", False)):
        ports = {row.columns["external_ids"].values["iface-id"] for row in render_workload_ports(PLAN, node)
                 if row.table == "Interface"}  # fmt: skip
        assert (PORT in ports) is expected


def test_additional_chassis_in_other_zones_during_migration():
    assert (
        render_additional_chassis(PLAN, "node1")
        == render_additional_chassis(PLAN, "node3")
        == {PORT: "chassis-of-node2"}
    )
    assert render_additional_chassis(PLAN, "node2") == {}
    over = build_plan(end_move(MOVING, "red/vm", "node2"))
    for node in ("node1", "node2", "node3"):
        assert render_additional_chassis(over, node) == {PORT: None}


def test_vm_roles_of_hosts_during_migration():
    roles = {node: [one.role for one in render_virtual_machines(PLAN, node)] for node in ("node1", "node2", "node3")}
    assert roles == {"node1": ["source"], "node2": ["target"], "node3": []}
    source, target = (render_virtual_machines(PLAN, node)[0] for node in ("node1", "node2"))
    assert dataclasses.replace(source, role="target") == target
    (alone,) = render_virtual_machines(build_plan(BEFORE), "node1")
    assert (alone.role, alone.memory, len(alone.nics)) == ("run", 96, 1)
    assert alone.nics[0].mac == "0a:58:0a:00:00:03"


def test_migration_without_a_state_database():
    parameters = {"workload": "red/vm", "node": "node2", "state": "started"}
    with pytest.raises(UserError, match="no state database"):
        record_move(parameters, None, write=False)


@pytest.fixture
def kept(monkeypatch):
    """What `record_move` has stored; the state before is a cluster with red/vm on node1."""
    found = []

    def store(_client, decide, *, write):
        after, _problems = decide(BEFORE)
        found.append(after)
        return BEFORE, after

    monkeypatch.setattr(migration, "store", store)
    return found


@pytest.mark.parametrize("node", ["node2", "node1"])
def test_a_migration_without_all_hosts_of_the_networks_is_refused_before_it_is_recorded(kept, node):
    parameters = {"workload": "red/vm", "node": node, "state": "started", "left_out": ["node3", "node1"]}
    with pytest.raises(UserError, match="leaves out node1, node3, which would go on sending to red/vm at node1") as why:
        record_move(parameters, object(), write=True)
    assert "--limit" in str(why.value)
    assert not kept
    _before, _after, result = record_move({**parameters, "left_out": []}, object(), write=True)
    assert result["move"]["pending"] == (node == "node2")


def test_hosts_without_the_networks_of_a_workload_may_be_left_out(kept, monkeypatch):
    plan = build_plan(BEFORE)
    plan["networks"]["red_net"]["nodes"] = ["node1", "node2"]
    monkeypatch.setattr(migration, "build_plan", lambda _snapshot: plan)
    parameters = {"workload": "red/vm", "node": "node2", "state": "started"}
    assert record_move({**parameters, "left_out": ["node3"]}, object(), write=True)[2]["move"]["pending"]
    with pytest.raises(UserError, match="leaves out node2, which"):
        record_move({**parameters, "left_out": ["node2", "node3"]}, object(), write=True)


@pytest.mark.parametrize("text", ["vm", "/vm", "red/"])
def test_a_workload_is_named_with_its_namespace(text):
    with pytest.raises(UserError, match="NAMESPACE/NAME"):
        vm_name(text)


def test_vm_gets_the_cluster_dns_by_dhcp():
    text = (
        namespace("red")
        + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
        + workload("red", "vm", "node1, kind: vm")
    )
    service = {"ports": [{"protocol": "UDP", "port": 53}], "endpoints": ["172.18.0.9"]}
    dns = {**service, "name": "kube-system/kube-dns", "address": "10.96.0.10"}

    def servers(*services):
        rows = render_northbound(plan_of(text, settings={"shared_services": list(services)}), "node1")
        return {row.key[-2:]: row.columns["options"].get("dns_server") for row in rows if row.table == "DHCP_Options"}

    def domains(**settings):
        rows = render_northbound(plan_of(text, settings=settings), "node1")
        keys = ("domain_search_list", "domain_search")
        options = [row.columns["options"] for row in rows if row.table == "DHCP_Options"]
        return [found[key] for found in options for key in keys if key in found]

    assert domains(cluster_domain="") == []
    assert domains(cluster_domain="lab.example") == ['"red.svc.lab.example,svc.lab.example,lab.example"'] * 2
    gateways = {"v4": "10.0.0.1", "v6": "fd00:10::1"}
    assert servers() == gateways
    assert servers({**dns, "name": "default/kubernetes"}) == gateways
    assert servers(dns) == {"v4": "10.96.0.10", "v6": None}
    assert servers(dns, {**dns, "address": "fd00:10:96::a", "endpoints": ["fd00:18::9"]}) == {
        "v4": "10.96.0.10", "v6": "fd00:10:96::a",
    }  # fmt: skip


VIRTUAL = TENANTS.replace("node2", "node2, kind: vm") + pool("192.0.2.200/31", "2001:db8::c00/127")
VIRTUAL += service("type: LoadBalancer, externalTrafficPolicy: Local, ipFamilyPolicy: RequireDualStack")
PROVIDED = with_gateways("shared")


def recorded(monkeypatch, before, **parameters) -> tuple:
    """Record a step of the move of red/a; return the state after it, and the result."""
    monkeypatch.setattr(migration, "store", lambda _client, decide, *, write: (before, decide(before)[0]))
    words = {"workload": "red/a", "left_out": [], **parameters}
    _before, after, result = record_move(words, object(), write=True)
    return after, result


def holders_of(snapshot) -> set[str]:
    return set(holders(build_plan(snapshot)).values())


def test_addresses_of_load_balancers_follow_their_last_endpoint_when_it_has_arrived(monkeypatch):
    before = stored(VIRTUAL, hosts=PROVIDED)
    assert holders_of(before) == {"node2"}
    moving, begun = recorded(monkeypatch, before, node="node3", state="started")
    # While it moves it may still end on the host that it leaves.
    assert (holders_of(moving), begun["moved_addresses"]) == ({"node2"}, {})
    failed, kept = recorded(monkeypatch, moving, node="node2", state="finished")
    assert (holders_of(failed), kept["moved_addresses"]) == ({"node2"}, {})
    after, ended = recorded(monkeypatch, moving, node="node3", state="finished")
    assert ended["moved_addresses"] == {"192.0.2.200": "node2", "2001:db8::c00": "node2"}
    assert holders(unpack(ended["document"])) == dict.fromkeys(ended["moved_addresses"], "node3")
    announced = condition(after.objects["Service/red/web"], "Announced")
    assert (announced["status"], announced["reason"]) == ("True", "Announced")
    # The next run with the same manifests has nothing to move.
    assert build_plan(stored(VIRTUAL, after, hosts=PROVIDED))["digest"] == unpack(ended["document"])["digest"]


def test_addresses_of_a_migration_that_was_cut_off_are_handed_over_when_it_is_repeated(monkeypatch):
    """The state has the end of the migration then, and there is nothing to migrate."""
    moving, _begun = recorded(monkeypatch, stored(VIRTUAL, hosts=PROVIDED), node="node3", state="started")
    after, ended = recorded(monkeypatch, moving, node="node3", state="finished")
    again, begun = recorded(monkeypatch, after, node="node3", state="started")
    assert again is after and not begun["move"]["pending"]
    assert begun["moved_addresses"] == ended["moved_addresses"] == {"192.0.2.200": "node2", "2001:db8::c00": "node2"}
    # Hosts have applied the plan.
    monkeypatch.setattr(ended_moves, "store", lambda _client, decide, *, write: (after, decide(after)[0]))
    other = {**unpack(ended["document"]), "digest": "other"}
    assert record_moved(object(), pack(other), PROVIDED, write=True) == {"changed": False, "overtaken": True}
    assert record_moved(object(), ended["document"], ["node1"], write=True) == {"changed": False, "overtaken": False}
    assert record_moved(object(), ended["document"], ["node3"], write=True) == {"changed": True, "overtaken": False}


def test_a_migration_whose_limit_leaves_out_a_host_of_an_unfinished_move_is_refused(monkeypatch):
    hosts = with_gateways("shared", nodes("node1", "node2", "node3", "node4", "node5"))
    text = TEXT + egress_ip("out", "192.0.2.100", namespaceSelector={"matchLabels": {"team": "none"}})

    def labelled_on(name: str) -> dict:
        return {**{one: {**host, "labels": {}} for one, host in hosts.items()}, **labelled({name: hosts[name]})}

    before = stored(text, stored(text, hosts=labelled_on("node4")), hosts=labelled_on("node5"))
    for name in ("node4", "node5"):
        with pytest.raises(UserError, match=f"leaves out {name}, .* 192.0.2.100 from node4 to node5"):
            recorded(monkeypatch, before, workload="red/vm", node="node2", state="started", left_out=[name])
    _after, begun = recorded(monkeypatch, before, workload="red/vm", node="node2", state="started")
    assert begun["moved_addresses"] == {"192.0.2.100": "node4"}


def test_an_address_does_not_follow_to_a_host_that_is_left_out(monkeypatch):
    before = stored(VIRTUAL, hosts=PROVIDED)
    moving, _begun = recorded(monkeypatch, before, node="node3", state="started")
    after, ended = recorded(monkeypatch, moving, node="node3", state="finished", left_out=["node2"])
    assert ended["moved_addresses"] == {}
    assert holders_of(after) == {"node2"}
    assert condition(after.objects["Service/red/web"], "Announced")["reason"] == "NoLocalEndpoints"
