# SPDX-License-Identifier: Apache-2.0
"""On which nodes a network is: those with a role in it, and those that lost their last one a short time ago."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.address_holders import update_users
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.backup import backup_of, snapshot_of
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.layer2_steps import (
    change_version,
    clean_up,
    drain,
)
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.network.network_nodes import (
    is_needed,
    leaving_since,
    roles,
    select_nodes,
)
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.network.networks import networks
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.workload.move import begin_move, end_move
from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_status import attention
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import (
    update_reports,
    with_readiness,
)
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import state_view
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import HostPlans
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import is_on, nodes_of
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge import render_flood_ports
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import (
    render_host_network,
    render_management_ports,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.store.layer2_version import TRANSIT_ROUTER
from ansible_collections.heddle.ovn.plugins.module_utils.store.settings import complete
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from tests.pipeline import (
    EVERYWHERE,
    THREE_NODES,
    layer2,
    layer3,
    namespace,
    nodes,
    plan_of,
    stored,
    with_gateways,
    workload,
)

NET = "UserDefinedNetwork/red/net"
LAYER2 = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:1::/64")
LAYER3 = namespace("red") + layer3("red", "net", "10.9.0.0/16", 24)
ONE, TWO = workload("red", "a", "node1"), workload("red", "b", "node2")
AT_ONCE = {"dynamic_networks_grace_period": 0}
START, SOON, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:01:59Z", "2026-01-01T00:02:00Z"


def on(snapshot, network: str = "red_net") -> list[str]:
    return nodes_of(build_plan(snapshot), network)


def selected(snapshot) -> tuple[str, str] | None:
    found = condition(snapshot.objects[NET], "NodesSelected")
    return (found["status"], found["message"]) if found else None


@pytest.mark.parametrize(
    ("held", "is_leaving", "expected"),
    [(set(), False, False), (set(), True, True), ({"workload"}, False, True), ({"workload"}, True, True)],
)
def test_a_node_needs_a_network_for_a_role_or_until_it_has_left(held, is_leaving, expected):
    assert is_needed(roles=held, is_leaving=is_leaving) is expected


@pytest.mark.parametrize(
    ("held", "since", "grace", "now", "expected"),
    [
        ({"workload"}, None, 120, START, None),
        ({"workload"}, START, 120, LATE, None),
        (set(), None, 120, START, START),
        (set(), START, 120, SOON, START),
        (set(), START, 120, LATE, None),
        (set(), None, 0, START, None),
        # The clock was set back.
        (set(), LATE, 120, START, START),
    ],
)
def test_since_when_a_node_leaves_a_network(held, since, grace, now, expected):
    assert leaving_since(roles=held, since=since, grace=grace, now=now) == expected


@pytest.mark.parametrize("network", [LAYER2, LAYER3], ids=["layer2", "layer3"])
def test_a_network_is_on_the_nodes_of_its_workloads(network):
    snapshot = stored(network)
    assert (on(snapshot), selected(snapshot)) == ([], ("False", "no nodes currently rendered with network"))
    snapshot = stored(network + ONE + TWO, snapshot)
    assert (on(snapshot), selected(snapshot)) == (["node1", "node2"], ("True", "2 node(s) rendered with network"))
    assert on(snapshot, "default") == ["node1", "node2", "node3"]
    assert "nodes" not in build_plan(snapshot)["networks"]["default"]
    assert stored(network + ONE + TWO, snapshot, now=LATE) == snapshot


def test_a_network_is_on_the_nodes_of_processes_that_its_services_lead_to_with_the_policy_local():
    text = (
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\n"
        "spec: {type: NodePort, externalTrafficPolicy: Local, ports: [{port: 80}]}\n"
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        "metadata: {name: web, namespace: red, labels: {kubernetes.io/service-name: web}}\n"
        "addressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: [192.0.2.13], nodeName: node3}]\n"
    )
    assert on(stored(LAYER2 + ONE + text, hosts=with_gateways("shared"))) == ["node1", "node3"]


def test_a_selected_secondary_network_is_on_the_node_of_the_workload():
    flat = layer2("red", "flat", "10.7.0.0/24").replace("Primary", "Secondary")
    snapshot = stored(LAYER2 + flat + ONE + workload("red", "b", "node2", "flat"))
    assert (on(snapshot), on(snapshot, "red_flat")) == (["node1", "node2"], ["node2"])


def test_a_waiting_workload_is_no_reason_for_a_network():
    text = namespace("red") + layer3("red", "net", "10.9.0.0/25", 26)
    snapshot = stored(text + "".join(workload("red", f"w{number}", f"node{number}") for number in (1, 2, 3)))
    assert on(snapshot) == ["node1", "node2"]


def test_layer3_subnets_of_nodes_do_not_depend_on_workloads():
    snapshot = stored(LAYER3 + ONE)
    subnets = build_plan(snapshot)["networks"]["red_net"]["host_subnets"]
    assert list(subnets) == ["node1", "node2", "node3"]
    assert build_plan(stored(LAYER3 + TWO, snapshot))["networks"]["red_net"]["host_subnets"] == subnets


def test_a_node_keeps_a_network_for_the_grace_period():
    before = stored(LAYER2 + ONE + TWO, now=START)
    left = stored(LAYER2 + ONE, before, now=START)
    assert left.objects[NET].status["leavingNodes"] == {"node2": START}
    assert (on(left), selected(left)[1]) == (["node1", "node2"], "2 node(s) rendered with network")
    assert stored(LAYER2 + ONE, left, now=SOON) == left
    over = stored(LAYER2 + ONE, left, now=LATE)
    assert (on(over), selected(over)[1]) == (["node1"], "1 node(s) rendered with network")
    assert "leavingNodes" not in over.objects[NET].status
    assert stored(LAYER2 + ONE, over, now=LATE) == over


def test_a_workload_that_returns_ends_the_grace_period():
    left = stored(LAYER2 + ONE, stored(LAYER2 + ONE + TWO, now=START), now=START)
    back = stored(LAYER2 + ONE + TWO, left, now=SOON)
    assert "leavingNodes" not in back.objects[NET].status
    assert stored(LAYER2 + ONE, back, now=LATE).objects[NET].status["leavingNodes"] == {"node2": LATE}


def test_grace_period_of_zero_removes_at_once():
    before = stored(LAYER2 + ONE + TWO, settings=AT_ONCE)
    assert on(stored(LAYER2 + ONE, before, settings=AT_ONCE)) == ["node1"]


def test_a_restored_backup_has_the_grace_period():
    left = stored(LAYER2 + ONE, stored(LAYER2 + ONE + TWO, now=START), now=START)
    left.revision = 1
    assert on(snapshot_of(backup_of(left))) == ["node1", "node2"]


def test_a_node_that_is_removed_leaves_no_trace():
    left = stored(LAYER2 + ONE, stored(LAYER2 + ONE + TWO, now=START), now=START)
    two = stored(LAYER2 + ONE, left, hosts=nodes("node1", "node3"), now=START)
    assert on(two) == ["node1"]
    assert "leavingNodes" not in two.objects[NET].status


def test_without_the_setting_every_network_is_on_every_node():
    everywhere = stored(LAYER2 + ONE, settings=EVERYWHERE)
    assert (on(everywhere), selected(everywhere)) == (["node1", "node2", "node3"], None)
    dynamic = stored(LAYER2 + ONE, everywhere, now=START)
    assert dynamic.objects[NET].status["leavingNodes"] == {"node2": START, "node3": START}
    assert on(stored(LAYER2 + ONE, dynamic, now=LATE)) == ["node1"]
    back = stored(LAYER2 + ONE, dynamic, settings=EVERYWHERE, now=START)
    assert (on(back), selected(back)) == (["node1", "node2", "node3"], None)
    assert "leavingNodes" not in back.objects[NET].status


def test_a_state_of_an_older_version_had_every_network_on_every_node():
    before = stored(LAYER2 + ONE, settings=EVERYWHERE)
    for name in ("dynamic_networks", "dynamic_networks_grace_period"):
        del before.settings[name]
    after = stored(LAYER2 + ONE, before, now=START)
    assert on(after) == ["node1", "node2", "node3"]
    assert on(stored(LAYER2 + ONE, after, now=LATE)) == ["node1"]


@pytest.mark.parametrize(
    "given",
    [{"dynamic_networks": "yes"}, {"dynamic_networks_grace_period": -1}, {"dynamic_networks_grace_period": True}],
)
def test_settings_are_checked(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        complete(given)


def test_a_migration_has_the_network_on_both_nodes_and_then_leaves_the_source():
    text = LAYER2 + workload("red", "vm", "node1").replace("node1", "node1, kind: vm")
    before = stored(text, now=START)
    moving, _move = begin_move(before, "red/vm", "node3")
    select_nodes(before, moving, START)
    assert (on(moving), selected(moving)[1]) == (["node1", "node3"], "2 node(s) rendered with network")
    over = end_move(moving, "red/vm", "node3")
    select_nodes(moving, over, START)
    assert on(over) == ["node1", "node3"]
    assert over.objects[NET].status["leavingNodes"] == {"node1": START}
    assert on(stored(text, over, now=LATE)) == ["node3"]


def test_layer2_networks_are_on_all_nodes_until_the_upgrade_is_cleaned_up():
    hosts = ["node1", "node2", "node3"]
    old = stored(LAYER2 + ONE, settings={**AT_ONCE, "layer2_topology": "gateway-router"})
    assert on(old) == hosts
    step = old
    for name in hosts:
        step = change_version(drain(step, [name], TRANSIT_ROUTER)[0], [name], TRANSIT_ROUTER)[0]
        assert on(step) == hosts
    done, blockers = clean_up(step)
    assert blockers == []
    select_nodes(step, done, START)
    assert len(on(done)) == 1


def test_roles_name_why_a_node_has_a_network():
    snapshot = stored(LAYER2 + ONE, settings={"layer2_topology": "gateway-router"})
    assert roles(snapshot, networks(snapshot))["red_net"] == {
        "node1": {"workload", "layer2-upgrade"}, "node2": {"layer2-upgrade"}, "node3": {"layer2-upgrade"},
    }  # fmt: skip


def everything_of(plan: dict, node: str, network: str) -> list:
    host = render_host_network(plan, node)
    return [
        one
        for one in (
            *render_northbound(plan, node), *render_management_ports(plan, node), *render_bridge_flows(plan, node),
            *render_flood_ports(plan, node), *host.vrfs, *host.links,
        )
        if one.network == network
    ]  # fmt: skip


@pytest.mark.parametrize("text", [LAYER2, LAYER3], ids=["layer2", "layer3"])
@pytest.mark.parametrize("mode", ["shared", "local"])
def test_a_node_without_the_network_renders_what_it_would_without_it_in_the_plan(text, mode):
    hosts = with_gateways(mode)
    plan, without = (plan_of(one, hosts=hosts) for one in (text + ONE + TWO, namespace("red")))
    assert everything_of(plan, "node1", "red_net")
    assert not everything_of(plan, "node3", "red_net")
    assert render_host_network(plan, "node3") == render_host_network(without, "node3")
    assert render_firewall(plan, "node3") == render_firewall(without, "node3")
    assert render_bridge_flows(plan, "node3") == render_bridge_flows(without, "node3")
    assert {row.key for row in render_northbound(plan, "node3") if "node1" in row.key} == {
        row.key for row in render_northbound(without, "node3") if "node1" in row.key
    }


@pytest.mark.parametrize("text", [LAYER2, LAYER3], ids=["layer2", "layer3"])
def test_a_node_with_the_network_has_remote_ports_only_of_others_with_it(text):
    plan = plan_of(text + ONE + TWO, hosts=THREE_NODES)
    rows = render_northbound(plan, "node1")
    of_network = "".join(f"{row.key} {row.columns}" for row in rows if row.network == "red_net")
    assert "node2" in of_network
    assert "node3" not in of_network


def test_a_plan_of_an_older_format_has_networks_on_all_nodes():
    plan = plan_of(LAYER3 + ONE)
    described = plan["networks"]["red_net"]
    del described["nodes"], described["host_subnets"]["node3"]
    assert [is_on(described, node) for node in plan["nodes"]] == [True, True, False]
    assert nodes_of(plan, "red_net") == ["node1", "node2"]


def reports(snapshot: Snapshot) -> dict[str, dict]:
    """Return what hosts report that are as planned."""
    digests = HostPlans(build_plan(snapshot)).digests
    return {node: {"digest": digest, "drift": [], "problems": []} for node, digest in digests.items()}


def test_only_hosts_with_the_network_count_for_its_readiness():
    text = LAYER2 + ONE + namespace("blue") + layer2("blue", "net", "10.1.0.0/24")
    before = stored(text)
    before.revision = 1
    good = reports(before)
    ready = with_readiness(before, {"node1": good["node1"], "node2": {}, "node3": {"asked": False}}, LATE)
    for key, hosts in ((NET, {"node1": "ready"}), ("UserDefinedNetwork/blue/net", {})):
        assert condition(ready.objects[key], "NetworkCreated")["status"] == "True"
        assert condition(ready.objects[key], "NetworkReady")["status"] == "True"
        assert ready.objects[key].status["hosts"] == hosts
    assert attention(state_view(ready)["objects"]) == []
    assert stored(text, ready, now=LATE).objects == ready.objects


def test_the_end_of_a_migration_leaves_the_readiness_that_the_next_run_finds():
    text = LAYER2 + workload("red", "vm", "node1").replace("node1", "node1, kind: vm") + TWO
    text += namespace("blue") + layer2("blue", "net", "10.1.0.0/24") + workload("blue", "w", "node3")
    before = stored(text, settings=AT_ONCE)
    moving, _move = begin_move(before, "red/vm", "node2")
    update_users(before, moving, START)
    update_reports(moving, START)
    moving.revision = 1
    ready = with_readiness(moving, reports(moving), START)
    assert ready.objects[NET].status["hosts"] == {"node1": "ready", "node2": "ready"}

    over = end_move(ready, "red/vm", "node2")
    update_users(ready, over, LATE)
    update_reports(over, LATE)
    found = condition(over.objects[NET], "NetworkReady")
    assert (found["message"], found["lastTransitionTime"]) == ("every host has the network: node2", START)
    assert stored(text, over, settings=AT_ONCE, now=LATE).objects == over.objects
    assert with_readiness(over, reports(over), LATE).objects == over.objects
