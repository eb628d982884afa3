# SPDX-License-Identifier: Apache-2.0
"""Moves of addresses as modules store them: refused by a limit, or kept where a host has not given its address up."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import unpack
from ansible_collections.heddle.ovn.plugins.module_utils.plan.address_holders import holders
from tests.live.state.module_run import intent, run
from tests.pipeline import labelled, layer2, namespace, with_gateways, workload
from tests.unit.controllers.test_egress_ips import egress_ip

HOSTS = labelled(with_gateways("shared"))
FIRST, SECOND = "192.0.2.100", "192.0.2.110"
TEXT = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "a", "node1")
TEXT += egress_ip("first", FIRST) + egress_ip("second", SECOND)


def hosts_with(*names: str) -> dict:
    return {name: host if name in names else {**host, "labels": {}} for name, host in HOSTS.items()}


def test_a_run_whose_limit_leaves_out_a_former_host_stores_nothing(database):
    run("resource", **intent(TEXT, database, nodes=hosts_with("node2")))
    stored = database.dump()
    reports = {"node1": {}, "node2": {"asked": False}, "node3": {}}
    for check in (True, False):
        refused = run(
            "resource", check=check, **intent(TEXT, database, nodes=hosts_with("node3"), hosts=reports)
        )  # fmt: skip
        assert refused["failed"]
        assert refused["msg"].startswith("the limit of this run leaves out node2, and addresses move")
        assert database.dump() == stored
    # The same manifests are no move, and the run without that limit moves them.
    assert run("resource", **intent(TEXT, database, nodes=hosts_with("node2"), hosts=reports))["moved_addresses"] == {}
    moved = run("resource", **intent(TEXT, database, nodes=hosts_with("node3")))
    assert moved["moved_addresses"] == {FIRST: "node2", SECOND: "node2"}


@pytest.fixture
def moving(database):
    """The result of a run in which each of two hosts loses an address."""
    before = run("resource", **intent(TEXT, database, nodes=hosts_with("node1", "node2")))
    assert set(holders(unpack(next(iter(before["host_plans"].values())))).values()) <= {"node1", "node2"}
    moved = run("resource", **intent(TEXT, database, nodes=hosts_with("node3")))
    assert moved["moved_addresses"] == {FIRST: "node1", SECOND: "node2"}
    return moved


def test_an_address_that_was_not_given_up_stays_and_the_next_run_moves_it(database, moving):
    words = {"socket": database.remote, "moved": moving["moved_addresses"], "hosts": {"node1": "no answer of br-ex"}}
    announced = run("kept_address", check=True, **words)
    kept = run("kept_address", **words)
    assert kept["changed"] and announced["digest"] == kept["digest"] != moving["digest"]
    assert kept["moved_addresses"] == {SECOND: "node2"}
    plan = unpack(kept["plan"])
    assert holders(plan) == {FIRST: "node1", SECOND: "node3"}
    # Later than the one that hosts have prepared for.
    assert plan["revision"] == kept["revision"] > moving["revision"]
    assert kept["waiting"] == [
        f"node1 has not given up {FIRST} for node3, and keeps it until a run of heddle.ovn.networks: no answer of br-ex"
    ]
    assert not run("kept_address", **words)["changed"]
    shown = run("readiness", socket=database.remote, hosts={}, digest=kept["digest"])
    assert not shown["overtaken"]
    assert f"{FIRST} is still at node1, which has not given it up: run heddle.ovn.networks again" in shown["attention"]
    hosts = hosts_with("node3")
    hosts["node3"] = {**hosts["node3"], "held_addresses": [SECOND]}
    again = run("resource", **intent(TEXT, database, nodes=hosts))
    assert again["moved_addresses"] == {FIRST: "node1"}
    assert again["digest"] == moving["digest"]
    # Also a run with a limit knows where it is.
    run("kept_address", **words)
    limited = run("resource", **intent(TEXT, database, nodes=hosts_with("node3"), hosts={"node1": {"asked": False}}))
    assert "leaves out node1" in limited["msg"]


def test_a_run_with_a_limit_knows_of_a_move_that_was_cut_off(database, moving):
    """Hosts have nothing of the move that the state has; the run is killed then."""
    text, hosts = TEXT, hosts_with("node3")

    def limited(*held: str, **asked: bool) -> dict:
        described = {**hosts, "node3": {**hosts["node3"], "held_addresses": list(held)}}
        reports = {name: {"asked": asked.get(name, True)} for name in HOSTS}
        return run("resource", check=True, **intent(text, database, nodes=described, hosts=reports))

    for name in ("node1", "node3"):
        assert f"the limit of this run leaves out {name}, " in limited(**{name: False})["msg"]
    assert limited(FIRST, SECOND, node1=False, node2=False)["moved_addresses"] == {}
    # Without a limit all hosts take the steps of the move, whatever they report.
    assert limited()["moved_addresses"] == moving["moved_addresses"]
    document = moving["plan"]
    assert run("moved_address", socket=database.remote, document=document, hosts=["node2", "node3"])["changed"]
    assert not run("moved_address", socket=database.remote, document=document, hosts=["node2", "node3"])["changed"]
    assert limited(node1=False)["moved_addresses"] == {}


def test_a_host_that_left_the_inventory_with_an_address_needs_attention(database):
    run("resource", **intent(TEXT, database, nodes=hosts_with("node2")))
    left = {name: host for name, host in hosts_with("node3").items() if name != "node2"}
    announced = run("resource", check=True, **intent(TEXT, database, nodes=left))
    assert "node2 has left the inventory with 192.0.2.100 (now at node3), " in announced["table"]
    found = run("resource", **intent(TEXT, database, nodes=left))
    assert len(found["attention"]) == 1
    shown = run("readiness", socket=database.remote, hosts={}, attention=found["attention"])
    assert found["attention"][0] in shown["attention"]
    assert run("resource", **intent(TEXT, database, nodes=left))["attention"] == []
