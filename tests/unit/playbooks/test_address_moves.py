# SPDX-License-Identifier: Apache-2.0
"""What playbooks do with an address whose former host cannot give it up, and with those of a VM that was moved."""

from __future__ import annotations

import json

import pytest

from .conftest import RESULTS as UPGRADE
from .conftest import SURVEY
from .recorded_run import NODES, Calls, play

FIRST, SECOND = "192.0.2.100", "192.0.2.110"
WAITING = "node2 has not given up 192.0.2.100 for node3, and keeps it until a run of heddle.ovn.networks: broken"
APPLIED = {"changes": {}, "stopped_services": [], "audit": {"digest": "b", "drift": [], "problems": []}}
# By module, step and node, as far as results depend on these.
RESULTS = {
    "resource": {
        "plan": "first plan", "digest": "a", "host_plans": {}, "moved_addresses": {FIRST: "node2", SECOND: "node1"},
        "pending": list(NODES), "kinds": [], "changes": "", "table": "", "differences": [], "attention": ["departed"],
    },
    "kept_address": {
        "plan": "second plan", "digest": "b", "moved_addresses": {SECOND: "node1"}, "waiting": [WAITING],
    },
    "moved_address": {},
    "readiness": {"attention": "shown", "files": "", "overtaken": False},
    "zone": APPLIED,
    "chassis_info": {},
}  # fmt: skip
BROKEN = {"zone release node2": {"failed": True, "msg": "broken"}}


@pytest.fixture
def networks(tmp_path):
    """A function `(results, hosts) -> Calls` that runs networks.yml; of one node there are further variables."""

    def run(results: dict, hosts: dict | None = None) -> Calls:
        return play(tmp_path, "networks.yml", {**RESULTS, **results}, hosts=hosts)

    return run


@pytest.mark.long
def test_addresses_that_were_given_up_are_taken_and_the_plan_is_applied(networks):
    run = networks({})
    assert run.code == 0, run.output
    assert sorted(one["node"] for one in run.of("zone", "release")) == ["node1", "node2"]
    assert not run.of("kept_address")
    for one in (*run.of("zone", "claim"), *run.of("zone")):
        assert one["document"] == "first plan"
    assert [one["moved"] for one in run.of("zone", "claim")] == [RESULTS["resource"]["moved_addresses"]] * 3
    assert [one["digest"] for one in run.of("readiness")] == ["a"]
    assert run.of("readiness")[0]["attention"] == ["departed"]


def test_an_address_that_was_not_given_up_is_taken_by_no_host_and_all_else_goes_on(networks):
    run = networks(BROKEN)
    assert run.code == 2, run.output
    [kept] = run.of("kept_address")
    assert kept["hosts"] == {"node2": "broken"}
    assert kept["moved"] == RESULTS["resource"]["moved_addresses"]
    assert [one["moved"] for one in run.of("zone", "claim")] == [{SECOND: "node1"}] * 3
    # Also the host itself goes on.
    assert sorted(one["node"] for one in run.of("zone")) == list(NODES)
    for one in (*run.of("zone", "claim"), *run.of("zone")):
        assert one["document"] == "second plan"
    assert [one["digest"] for one in run.of("readiness")] == ["b"]
    assert "Addresses were not moved, and stay on their former hosts. Everything else is as planned." in run.output
    assert "it completes the move" in run.output
    assert WAITING in run.output


# Workloads became ready or not in the run, so that a Service has other endpoints.
ENDPOINTS = {
    **RESULTS["readiness"], "plan": "endpoints", "digest": "e", "host_plans": {}, "pending": list(NODES),
    "moved_addresses": {FIRST: "node2", SECOND: "node1"},
}  # fmt: skip


@pytest.mark.long
def test_an_address_that_other_endpoints_would_move_is_kept_as_well(networks):
    admitted = {**RESULTS["resource"], "moved_addresses": {}}
    run = networks({**BROKEN, "resource": admitted, "readiness": ENDPOINTS})
    assert run.code == 2, run.output
    assert [one["document"] for one in run.of("zone")] == ["first plan"] * 3 + ["second plan"] * 3
    assert [one["moved"] for one in run.of("zone", "claim")] == [{SECOND: "node1"}] * 3
    # That of the plan which hosts have in the end.
    assert [one["digest"] for one in run.of("readiness")] == ["a", "b"]
    assert WAITING in run.output


@pytest.mark.parametrize("moved", [{FIRST: "node2"}, {}])
def test_a_kept_address_that_moves_with_other_endpoints_or_need_not_move_then_is_no_failure(networks, moved):
    broken = {"zone release node2 first plan": {"failed": True, "msg": "broken"}}
    run = networks({**broken, "readiness": {**ENDPOINTS, "moved_addresses": moved}})
    assert run.code == 0, run.output
    assert len(run.of("kept_address")) == 1
    assert [one["document"] for one in run.of("zone")] == ["second plan"] * 3 + ["endpoints"] * 3
    # The others are recorded with the readiness of networks.
    assert [one["document"] for one in run.of("moved_address")] == ["endpoints"] * len(moved)
    assert all(sorted(one["hosts"]) == list(NODES) for one in run.of("moved_address"))


def test_a_kept_address_that_other_endpoints_do_not_move_either_is_reported_once(networks):
    run = networks({**BROKEN, "readiness": ENDPOINTS})
    assert run.code == 2, run.output
    assert len(run.of("kept_address")) == 2
    assert run.output.split("Addresses were not moved")[1].count("node2 has not given up") == 1


@pytest.mark.long
def test_a_host_that_failed_before_in_the_run_and_answers_keeps_its_addresses(networks):
    run = networks({"chassis_info node2": {"failed": True, "msg": "no facts"}})
    assert run.code == 2, run.output
    [kept] = run.of("kept_address")
    assert kept["hosts"] == {"node2": "it failed before in this run, for the reason shown above"}
    assert sorted(one["node"] for one in run.of("zone", "claim")) == ["node1", "node3"]
    assert {one["document"] for one in run.of("zone")} == {"second plan"}
    # In one message with the host that has not got the plan.
    assert "These hosts were not brought to the plan: node2." in run.output
    assert WAITING in run.output


def test_addresses_of_a_host_that_does_not_answer_are_taken(networks):
    dead = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_retries": 0}
    run = networks({}, {"node2": dead})
    assert run.code != 0, run.output
    assert not run.of("kept_address")
    assert run.of("readiness")[0]["attention"] == ["departed"]
    assert [one["node"] for one in run.of("zone", "release")] == ["node1"]
    assert {one["document"] for one in run.of("zone", "claim")} == {"first plan"}
    assert sorted(one["node"] for one in run.of("zone")) == ["node1", "node3"]


@pytest.mark.long
def test_without_a_record_of_the_addresses_no_host_takes_any(networks):
    run = networks({**BROKEN, "kept_address": {"failed": True, "msg": "no state"}})
    assert run.code == 2, run.output
    assert not run.of("zone", "claim")
    assert not run.of("zone")


MOVE = {"workload": "red/vm", "from": "node1", "to": "node3", "pending": True}
MIGRATION = {
    "migration started": {"move": MOVE, "document": "both ends", "node": "node3", "moved_addresses": {}},
    "migration finished": {"document": "first plan", "node": "node3", "moved_addresses": {FIRST: "node1"}},
    "virtual_machine receiving": {"port": 1, "key": "k"},
    "virtual_machine sent": {"downtime_ms": 1, "total_ms": 2, "transferred_bytes": 3},
    "virtual_machine completed": {},
    "virtual_machine_info": {"status": "inmigrate"},
    "gateway_announcement": {"announced": []},
    "moved_address": {},
    "zone": APPLIED,
    "readiness": {},
    "kept_address": {"plan": "second plan", "digest": "b", "moved_addresses": {}, "waiting": [WAITING]},
}


def migrate(tmp_path, results: dict) -> Calls:
    """Move a VM whose state after it is not read a second time: it runs on its target from the beginning."""
    arrived = {"virtual_machine_info": {"status": "running"}}
    arguments = ("-e", "workload=red/vm", "-e", "to=node3", "-e", f"heddle_report_directory={tmp_path / 'report'}")
    return play(tmp_path, "migrate_workload.yml", {**MIGRATION, **arrived, **results}, *arguments)


@pytest.mark.long
def test_the_address_of_a_load_balancer_moves_with_its_last_endpoint(tmp_path):
    run = migrate(tmp_path, {})
    assert run.code == 0, run.output
    # Of the plan with both ends none moves; then all hosts take each step before they apply the plan.
    assert [one["node"] for one in run.of("zone", "release")] == ["node1"]
    for step in ("prepare", "claim"):
        calls = run.of("zone", step)
        assert sorted(one["node"] for one in calls) == list(NODES)
        assert all((one["moved"], one["document"]) == ({FIRST: "node1"}, "first plan") for one in calls)
    assert [one["document"] for one in run.of("zone")] == ["both ends"] * 3 + ["first plan"] * 3
    assert not run.of("kept_address")
    assert [one.get("left_out") for one in run.of("migration")] == [[], []]
    [recorded] = run.of("moved_address")
    assert (recorded["document"], sorted(recorded["hosts"])) == ("first plan", list(NODES))


def test_a_vm_is_moved_although_its_former_host_keeps_the_address(tmp_path):
    run = migrate(tmp_path, {"zone release node1": {"failed": True, "msg": "broken"}})
    assert run.code == 2, run.output
    [kept] = run.of("kept_address")
    assert (kept["moved"], kept["hosts"]) == ({FIRST: "node1"}, {"node1": "broken"})
    assert [one["document"] for one in run.of("zone")] == ["both ends"] * 3 + ["second plan"] * 3
    assert [one.get("left_out") for one in run.of("migration")] == [[], []]
    assert "red/vm was moved, but addresses stay on their former hosts." in run.output
    assert WAITING in run.output


# A run was cut off when the state had the end of the migration, and hosts had not.
CUT_OFF = {
    **MIGRATION["migration started"], "move": {**MOVE, "from": "node3", "pending": False}, "document": "first plan",
    "moved_addresses": {FIRST: "node1"},
}  # fmt: skip


def test_addresses_move_step_by_step_after_a_migration_that_was_cut_off(tmp_path):
    run = migrate(tmp_path, {"migration started": CUT_OFF})
    assert run.code == 0, run.output
    assert [one["node"] for one in run.of("zone", "release")] == ["node1"]
    for step in ("prepare", "claim"):
        assert [one["moved"] for one in run.of("zone", step)] == [{FIRST: "node1"}] * 3
    assert [one["document"] for one in run.of("zone")] == ["first plan"] * 3
    assert [one["document"] for one in run.of("moved_address")] == ["first plan"]


def test_an_address_is_kept_after_a_migration_that_was_cut_off_and_the_run_fails(tmp_path):
    run = migrate(tmp_path, {"migration started": CUT_OFF, "zone release node1": {"failed": True, "msg": "broken"}})
    assert run.code == 2, run.output
    assert [one["moved"] for one in run.of("zone", "claim")] == [{}] * 3
    assert [one["document"] for one in run.of("zone")] == ["second plan"] * 3
    assert WAITING in run.output


def test_an_upgrade_stops_where_a_host_has_not_given_an_address_up(tmp_path):
    """Its gateway router would be made anew with the address."""
    batches = {"survey": {**SURVEY, "batches": [["node2"]]}}
    step = {"moved": [], "document": "first plan", "moved_addresses": {FIRST: "node2"}}
    results = {
        "layer2_upgrade_info": {**UPGRADE["layer2_upgrade_info"], **batches}, "layer2_upgrade": step, "zone": APPLIED,
        "moved_address": {},
    }  # fmt: skip
    options = {
        "heddle_upgrade_traffic": False, "heddle_upgrade_verify": False, "heddle_report_directory": str(tmp_path / "r"),
    }  # fmt: skip
    run = play(tmp_path, "upgrade_layer2.yml", {**results, **BROKEN}, "-e", json.dumps(options))
    assert run.code == 2, run.output
    assert run.of("zone", "release")
    assert not run.of("zone", "claim")
    assert {one["step"] for one in run.of("layer2_upgrade")} == {"drain"}
    assert "node2: Give up addresses that go to other hosts: broken" in run.output
