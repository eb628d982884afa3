# SPDX-License-Identifier: Apache-2.0
"""A network that cannot be rendered is reported in its own status; all others are in the plan."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.api import packed, read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.operations import admission_service, plans
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render import northbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.rehearsal import unrenderable
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from tests.pipeline import EVERYWHERE, THREE_NODES, layer2, layer3, namespace, plan_of, with_gateways, workload

FLAT_LOCALNET = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: plant}\n"
    "spec:\n  namespaceSelector: {}\n  template: {topology: Localnet, role: Secondary, subnets: [10.66.0.0/24]}\n"
)
RED = namespace("red") + layer2("red", "net", "10.1.0.0/24") + workload("red", "w", "node1")
BLUE = namespace("blue") + layer2("blue", "net", "10.2.0.0/24") + workload("blue", "w", "node1")


class Database:
    """Keeps the state in memory; stands in for the client of the state database."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()

    def store(self, _client, decide_next, *, write):
        before = self.snapshot
        after, problems = decide_next(before)
        assert not problems
        if write:
            self.snapshot = after
            after.revision = before.revision + 1
        return before, after


@pytest.fixture(name="database")
def _database(monkeypatch):
    found = Database()
    monkeypatch.setattr(admission_service, "store", found.store)
    return found


def apply(text: str, hosts: dict | None = None) -> Snapshot:
    resources, problems = read_manifests([("t.yml", text)])
    assert not problems
    params = {
        "resources": pack([packed(resource) for resource in resources]),
        "nodes": hosts or THREE_NODES, "settings": {}, "manifest_set": "test", "deployment": "test", "released": [],
    }  # fmt: skip
    return admission_service.next_state(params, None, write=True)[1]


def fail_for(monkeypatch, *names: str, on: str = "node1", topology: str = "Layer2") -> None:
    """Make the renderer of a topology fail for some of its networks on one node."""
    good = northbound._TOPOLOGIES[topology]

    def render(view):
        if view.name in names and view.node == on:
            raise ValueError("no such thing")
        return good(view)

    monkeypatch.setitem(northbound._TOPOLOGIES, topology, render)


def test_a_flat_localnet_network_leads_to_the_physical_network_of_its_name():
    plan = plan_of(RED + FLAT_LOCALNET, settings=EVERYWHERE)
    assert plan["networks"]["cluster_udn_plant"]["physical_network"] == "cluster_udn_plant"
    rows = [row for row in northbound.render_northbound(plan, "node1") if row.columns.get("type") == "localnet"]
    assert [row.columns["options"] for row in rows] == [{"network_name": "cluster_udn_plant"}]
    assert unrenderable(plan) == {}


def test_unrenderable_network_is_left_out_with_a_reason(database, monkeypatch):
    fail_for(monkeypatch, "red_net")
    plan = build_plan(apply(RED + BLUE))
    assert set(plan["networks"]) == {"default", "blue_net"}
    assert set(plan["workloads"]) == {"blue/w"}
    entry = database.snapshot.objects["UserDefinedNetwork/red/net"]
    created = condition(entry, "NetworkCreated")
    assert (created["status"], created["reason"]) == ("False", "SyncError")
    assert created["message"] == "it cannot be rendered on node node1: ValueError: no such thing"
    waiting = condition(database.snapshot.objects["Workload/red/w"], "Ready")
    assert waiting["reason"] == "PrimaryNetworkMissing"


def test_repetition_changes_nothing(database, monkeypatch):
    fail_for(monkeypatch, "red_net")
    first = apply(RED + BLUE)
    again = apply(RED + BLUE)
    assert (again.objects, again.allocations) == (first.objects, first.allocations)


def test_network_is_applied_once_it_can_be_rendered(database, monkeypatch):
    with monkeypatch.context() as patch:
        fail_for(patch, "red_net")
        apply(RED + BLUE)
    plan = build_plan(apply(RED + BLUE))
    assert set(plan["networks"]) == {"default", "blue_net", "red_net"}
    assert condition(database.snapshot.objects["UserDefinedNetwork/red/net"], "NetworkCreated")["status"] == "True"


def test_unrenderable_network_in_use_does_not_block_changes_of_others(database, monkeypatch):
    apply(RED, with_gateways("shared"))
    fail_for(monkeypatch, "red_net")
    # Other facts of the hosts, so that every network is rendered anew.
    plan = build_plan(apply(RED + BLUE, with_gateways("local")))
    assert set(plan["networks"]) == {"default", "blue_net"}
    entry = database.snapshot.objects["UserDefinedNetwork/red/net"]
    assert condition(entry, "NetworkCreated")["status"] == "False"
    assert condition(database.snapshot.objects["Workload/red/w"], "Ready")["status"] == "False"


def of_network(snapshot: Snapshot, name: str) -> dict:
    """Return everything that is allocated to a network and in it."""
    found = {pool: held for pool, held in snapshot.allocations.items() if f"/{name}" in pool}
    return found | {pool: snapshot.get(pool, name) for pool in ("network-id", "tunnel-key")}


LAYER3 = namespace("deep") + layer3("deep", "net", "10.3.0.0/16", 24) + workload("deep", "w", "node1")


@pytest.mark.parametrize(("topology", "text", "name"), [("Layer2", RED, "red_net"), ("Layer3", LAYER3, "deep_net")])
def test_a_network_that_no_longer_renders_keeps_its_ids(database, monkeypatch, topology, text, name):
    owned = of_network(apply(text, with_gateways("shared")), name)
    assert owned["network-id"]
    with monkeypatch.context() as patch:
        fail_for(patch, name, topology=topology)
        # Hosts change, so that it is rendered anew; others are made meanwhile.
        for more in (BLUE, BLUE + namespace("green") + layer2("green", "net", "10.5.0.0/24")):
            after = apply(text + more, with_gateways("local"))
            assert name not in build_plan(after)["networks"]
            assert of_network(after, name) == owned
            assert "id" not in after.objects[f"UserDefinedNetwork/{name.replace('_', '/')}"].status["network"]
    after = apply(text + BLUE, with_gateways("local"))
    assert of_network(after, name) == owned
    assert build_plan(after)["networks"][name]["id"] == int(owned["network-id"])


def test_a_deleted_network_frees_its_ids_although_it_never_rendered_again(database, monkeypatch):
    apply(RED, with_gateways("shared"))
    with monkeypatch.context() as patch:
        fail_for(patch, "red_net")
        apply(RED, with_gateways("local"))
        after = apply(BLUE, with_gateways("local"))
    assert not [value for value in of_network(after, "red_net").values() if value]


def test_a_running_workload_goes_on_without_a_selected_network_that_cannot_be_rendered(database, monkeypatch):
    second = layer2("red", "second", "10.7.0.0/24").replace("Primary", "Secondary")
    text = namespace("red") + layer2("red", "net", "10.1.0.0/24") + second + workload("red", "w", "node1", "second")
    apply(text, with_gateways("shared"))
    with monkeypatch.context() as patch:
        fail_for(patch, "red_second")
        plan = build_plan(apply(text, with_gateways("local")))
    assert [one["network"] for one in plan["workloads"]["red/w"]["interfaces"]] == ["default", "red_net"]
    ready = condition(database.snapshot.objects["Workload/red/w"], "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NetworkNotReady")
    plan = build_plan(apply(text, with_gateways("shared")))
    assert [one["name"] for one in plan["workloads"]["red/w"]["interfaces"]] == ["eth0", "ovn-udn1", "net1"]
    assert condition(database.snapshot.objects["Workload/red/w"], "Ready")["status"] == "True"


def test_only_networks_that_changed_are_rendered(database, monkeypatch):
    apply(RED)
    seen = []
    good = northbound.render_layer2
    monkeypatch.setitem(northbound._TOPOLOGIES, "Layer2", lambda view: seen.append(view.name) or good(view))
    apply(RED + BLUE)
    assert set(seen) == {"blue_net"}


SERVICE = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\nspec: {ports: [{port: 80}]}\n"


DEFAULT_EVERYWHERE = {("default", node) for node in THREE_NODES}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", set()),
        # The default network is rendered beside any other.
        (SERVICE, {("default", "node1"), ("red_net", "node1")}),
        # All workloads are on the default network, too.
        (workload("blue", "v", "node2"), DEFAULT_EVERYWHERE | {("blue_net", "node1"), ("blue_net", "node2")}),
        # Where it is, and on the next node, where it is remote.
        (workload("plain", "v", "node2"), {("default", "node2"), ("default", "node3")}),
    ],
    ids=["nothing", "a Service", "a workload of a network", "a workload of the default network"],
)  # fmt: skip
def test_only_what_differs_is_rendered_where_it_is(database, monkeypatch, more, expected):
    text = RED + BLUE + namespace("plain", primary=False)
    apply(text)
    seen = set()
    for topology, good in [*northbound._TOPOLOGIES.items()]:
        monkeypatch.setitem(
            northbound._TOPOLOGIES, topology, lambda view, good=good: seen.add((view.name, view.node)) or good(view)
        )
    apply(text + more)
    assert seen == expected


def test_a_run_without_a_change_builds_one_plan(database, monkeypatch):
    apply(RED)
    built = []
    monkeypatch.setattr(plans, "build_plan", lambda snapshot: built.append(snapshot) or build_plan(snapshot))
    apply(RED)
    assert len(built) == 1
    apply(RED + BLUE)
    assert len(built) == 3


def test_nothing_is_written_when_the_default_network_cannot_be_rendered(database, monkeypatch):
    monkeypatch.setitem(northbound._TOPOLOGIES, "Layer3", lambda view: [][0])
    with pytest.raises(UserError, match="the default network: it cannot be rendered on node node1: IndexError"):
        apply(RED)
    assert not database.snapshot.revision


def test_values_that_ovsdb_rejects_are_found():
    plan = plan_of(RED + BLUE + FLAT_LOCALNET)
    plan["networks"]["cluster_udn_plant"]["physical_network"] = None
    assert unrenderable(plan) == {
        "cluster_udn_plant": "it cannot be rendered on node node1: Logical_Switch_Port "
        "cluster_udn_plant_ovn_localnet_port has None for options:network_name, and text is wanted"
    }
