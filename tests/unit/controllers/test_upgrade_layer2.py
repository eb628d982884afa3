# SPDX-License-Identifier: Apache-2.0
"""The steps of the Layer2 upgrade on snapshots: what moves, what blocks, what is kept."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.layer2_steps import (
    change_version,
    clean_up,
    drain,
    go_back,
    survey,
)
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.workload.move import begin_move, ends
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.store.layer2_version import (
    GATEWAY_ROUTERS,
    TRANSIT_ROUTER,
)
from ansible_collections.heddle.ovn.plugins.module_utils.store.settings import complete
from tests.pipeline import THREE_NODES, decide, layer2, layer3, namespace, nodes, workload

OLD = {"layer2_topology": "gateway-router"}
TEXT = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24")
    + workload("red", "a", "node1") + workload("red", "b", "node2")
    + namespace("blue") + layer3("blue", "net", "10.9.0.0/16", 24) + workload("blue", "a", "node1")
)  # fmt: skip


def old_cluster(text=TEXT, hosts=None):
    after, problems = decide(text, settings=OLD, hosts=hosts)
    assert not problems
    after.revision = 1
    return after


def upgraded(snapshot, *names):
    for name in names:
        snapshot, _moves, blockers = drain(snapshot, [name], TRANSIT_ROUTER)
        assert not blockers
        snapshot, blockers = change_version(snapshot, [name], TRANSIT_ROUTER)
        assert not blockers
    return snapshot


def versions(snapshot):
    return {name: node["layer2_topology_version"] for name, node in build_plan(snapshot)["nodes"].items()}


def keys(snapshot):
    return build_plan(snapshot)["networks"]["red_net"].get("gateway_tunnel_ids")


def place(snapshot, name):
    return build_plan(snapshot)["workloads"][name]["node"]


def test_fresh_cluster_has_the_topology_of_the_setting():
    assert set(versions(old_cluster()).values()) == {GATEWAY_ROUTERS}
    fresh, _problems = decide(TEXT)
    assert set(versions(fresh).values()) == {TRANSIT_ROUTER}
    assert keys(fresh) is None


def test_gateway_routers_and_workloads_have_tunnel_keys_of_one_pool():
    plan = build_plan(old_cluster())
    gateways = plan["networks"]["red_net"]["gateway_tunnel_ids"]
    workloads = [entry["interfaces"][1]["tunnel_id"] for name, entry in plan["workloads"].items() if name[:3] == "red"]
    assert sorted(gateways) == ["node1", "node2", "node3"]
    assert len({*gateways.values(), *workloads}) == 5
    assert "gateway_tunnel_ids" not in plan["networks"]["blue_net"]


def test_legacy_topology_only_for_fresh_clusters():
    fresh, _problems = decide(TEXT)
    fresh.revision = 1
    _after, problems = decide(TEXT, fresh, settings=OLD)
    rules = [problem.rule for problem in problems]
    assert rules == ["gateway-router can only be chosen for a cluster that has no hosts yet"]
    with pytest.raises(ValueError, match=r"layer2_topology: must be transit-router or gateway-router, not 'old'"):
        complete({"layer2_topology": "old"})


def test_setting_may_be_removed_and_restored_with_the_legacy_topology():
    old = old_cluster()
    without, problems = decide(TEXT, old)
    assert not problems
    back, problems = decide(TEXT, without, settings=OLD)
    assert not problems
    assert set(versions(without).values()) == set(versions(back).values()) == {GATEWAY_ROUTERS}


def test_a_drained_workload_keeps_its_addresses_and_key_on_the_layer2_network():
    before = old_cluster()
    after, moves, blockers = drain(before, ["node1"], TRANSIT_ROUTER)
    assert not blockers
    assert [(move.workload, move.source, move.target) for move in moves] == [("red/a", "node1", "node3")]
    old, new = (build_plan(snapshot)["workloads"]["red/a"]["interfaces"] for snapshot in (before, after))
    assert old[1] == new[1]
    assert old[0]["addresses"] != new[0]["addresses"]
    assert place(after, "blue/a") == "node1"


def test_drained_workload_stays_until_its_manifest_names_another_node():
    drained, _moves, _blockers = drain(old_cluster(), ["node1"], TRANSIT_ROUTER)
    again, problems = decide(TEXT, drained, settings=OLD)
    assert not problems
    assert place(again, "red/a") == "node3"
    moved, _problems = decide(TEXT.replace("{node: node1}", "{node: node2}"), drained, settings=OLD)
    assert place(moved, "red/a") == "node2"
    back, _problems = decide(TEXT, moved, settings=OLD)
    assert place(back, "red/a") == "node1"


def test_workloads_return_to_the_nodes_of_their_manifests():
    done = upgraded(old_cluster(), "node1", "node2", "node3")
    away = [name for name, node in (("red/a", "node1"), ("red/b", "node2")) if place(done, name) != node]
    after, moves, blockers = go_back(done)
    assert not blockers
    assert [move.workload for move in moves] == away != []
    assert (place(after, "red/a"), place(after, "red/b")) == ("node1", "node2")
    assert place(after, "blue/a") == place(done, "blue/a")
    assert not go_back(after)[1]


def test_workload_returns_when_its_drain_target_is_removed():
    drained, _moves, _blockers = drain(old_cluster(), ["node1"], TRANSIT_ROUTER)
    after, problems = decide(TEXT, drained, settings=OLD, hosts=nodes("node1", "node2"))
    assert not problems
    assert place(after, "red/a") == "node1"


def test_drain_prefers_upgraded_nodes():
    one = upgraded(old_cluster(), "node1")
    after, moves, _blockers = drain(one, ["node2"], TRANSIT_ROUTER)
    assert {move.target for move in moves} == {"node1"}
    assert upgraded(after, "node2", "node3")


def moving_cluster():
    text = TEXT.replace("{node: node1}", "{node: node1, kind: vm}", 1)
    after, _move = begin_move(old_cluster(text), "red/a", "node2")
    return after


def test_cut_off_drain_continues_to_its_target():
    after, moves, blockers = drain(moving_cluster(), ["node1"], TRANSIT_ROUTER)
    assert not blockers
    assert [(move.workload, move.source, move.target) for move in moves] == [("red/a", "node1", "node2")]
    (there,) = [workload for workload in after.of_kind("Workload") if workload.key == "Workload/red/a"]
    assert ends(there) == {"node2"}


def test_node_with_an_incoming_migration_does_not_change():
    reported = (
        "node node1, network red_net, workload red/a: is migrating to node2; "
        "finish that first: heddle.ovn.migrate_workload -e workload=red/a -e to=node2"
    )
    for blockers in (
        drain(moving_cluster(), ["node2"], TRANSIT_ROUTER)[2],
        survey(moving_cluster(), TRANSIT_ROUTER, ["node2"], 1).blockers,
        go_back(moving_cluster())[2],
    ):
        assert [str(blocker) for blocker in blockers] == [reported]
    _after, blockers = change_version(moving_cluster(), ["node2"], TRANSIT_ROUTER)
    assert "red/a" in {blocker.workload for blocker in blockers}


def test_a_node_with_a_layer2_workload_does_not_change():
    _after, blockers = change_version(old_cluster(), ["node1"], TRANSIT_ROUTER)
    assert [str(blocker) for blocker in blockers] == [
        "node node1, network red_net, workload red/a: is still on the node; drain the node first"
    ]


def test_legacy_keys_are_freed_by_the_clean_up():
    before = old_cluster()
    last = upgraded(before, "node1", "node2", "node3")
    assert keys(last) == keys(before)
    done, blockers = clean_up(last)
    assert not blockers
    assert keys(done) is None
    _after, blockers = change_version(done, ["node1"], GATEWAY_ROUTERS)
    assert "was cleaned up" in str(blockers[0])
    assert build_plan(done)["networks"]["red_net"]["join_subnets_on_link"]
    # The inventory may keep the setting: later nodes have the new topology all the same.
    later, problems = decide(TEXT, done, settings=OLD, hosts=nodes("node1", "node2", "node3", "node4"))
    assert not problems
    assert set(versions(later).values()) == {TRANSIT_ROUTER}
    assert "join_subnets_on_link" in build_plan(later)["networks"]["red_net"]


def test_no_clean_up_before_all_nodes_are_upgraded():
    _after, blockers = clean_up(upgraded(old_cluster(), "node1", "node2"))
    assert [blocker.node for blocker in blockers] == ["node3"]


def test_rollback_restores_the_plan():
    before = old_cluster()
    step = upgraded(before, "node1", "node2", "node3")
    for name in ("node3", "node1", "node2"):
        step, _moves, _blockers = drain(step, [name], GATEWAY_ROUTERS)
        step, blockers = change_version(step, [name], GATEWAY_ROUTERS)
        assert not blockers
    old, new = build_plan(before), build_plan(step)
    assert (old["nodes"], old["networks"]) == (new["nodes"], new["networks"])


def test_a_node_that_joins_during_the_upgrade_gets_keys_too():
    hosts = nodes("node1", "node2", "node3", "node4")
    after, problems = decide(TEXT, upgraded(old_cluster(), "node1"), settings=OLD, hosts=hosts)
    assert not problems
    assert versions(after) == {"node1": "2.0", "node2": "1.0", "node3": "1.0", "node4": "1.0"}
    assert sorted(keys(after)) == sorted(hosts)


@pytest.mark.parametrize(
    ("serial", "batches"), [(1, [["node1"], ["node2"], ["node3"]]), (2, [["node1", "node2"], ["node3"]])]
)
def test_survey_covers_all_steps(serial, batches):
    found = survey(old_cluster(), TRANSIT_ROUTER, [], serial)
    assert not found.blockers
    assert found.batches == batches
    assert {move.workload for move in found.moves} == {"red/a", "red/b"}


def test_survey_of_a_partial_and_a_finished_upgrade():
    found = survey(upgraded(old_cluster(), "node2"), TRANSIT_ROUTER, [], 1)
    assert found.batches == [["node1"], ["node3"]]
    assert found.last_changed == ["node2"]
    assert not survey(upgraded(old_cluster(), "node1", "node2", "node3"), TRANSIT_ROUTER, [], 1).batches
    fresh, _problems = decide(TEXT)
    done = survey(fresh, TRANSIT_ROUTER, [], 1)
    assert (done.open, done.batches, done.blockers) == (False, [], [])


@pytest.mark.parametrize(
    ("text", "hosts", "wanted", "fragment"),
    [
        (
            TEXT.replace("{node: node1}", "{node: node1, movable: false}", 1),
            THREE_NODES, [],
            "node node1, network red_net, workload red/a: may not be moved (spec.movable is false)",
        ),
        (TEXT.replace("node2", "node1"), nodes("node1"), [], "workload red/a: there is no other node"),
        (TEXT, {**THREE_NODES, "node3": {}}, [], "node node3: its chassis is not known"),
        (TEXT, THREE_NODES, ["node7"], "node node7: is not a node of this cluster"),
        (
            TEXT.replace("layer2: {", "layer2: {joinSubnets: [100.70.0.0/29], "),
            nodes("node1", "node2", "node3", "node4", "node5"), [],
            "node node5, network red_net: the upgrade needs the last but one address of the join subnet 100.70.0.0/29",
        ),
    ],
)  # fmt: skip
def test_survey_lists_blockers(text, hosts, wanted, fragment):
    found = survey(old_cluster(text, hosts), TRANSIT_ROUTER, wanted, 1)
    assert any(fragment in str(blocker) for blocker in found.blockers), found.blockers
    assert all(blocker.remedy for blocker in found.blockers)


def test_full_host_subnet_blocks_before_any_move():
    settings = {**OLD, "cluster_subnets": ["10.244.0.0/16/29"]}
    text = TEXT + "".join(workload("blue", f"w{number}", "node1") for number in range(2)) + "".join(
        workload("blue", f"x{number}", "node3") for number in range(4)
    )  # fmt: skip
    before, problems = decide(text, settings=settings)
    assert not problems
    found = survey(before, TRANSIT_ROUTER, ["node2"], 1)
    assert any("10.244.0.0/29" in str(blocker) for blocker in found.blockers), found


def test_survey_shows_a_changed_transit_subnet():
    text = namespace("red") + layer2("red", "net", "100.88.0.0/24") + workload("red", "a", "node1")
    found = survey(old_cluster(text), TRANSIT_ROUTER, [], 1)
    assert not found.blockers
    assert found.notes == [
        "network red_net: its transit subnet is 100.89.0.0/16, as the configured one overlaps with one of its own"
    ]
