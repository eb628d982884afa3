# SPDX-License-Identifier: Apache-2.0
"""The state keeps which hosts may have an address of a move that was cut off, until these have the plan."""

from __future__ import annotations

import dataclasses

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.unfinished_moves import end_moves, unfinished_moves
from ansible_collections.heddle.ovn.plugins.module_utils.operations.plans import Plans
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import with_readiness
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.plan.address_holders import moved_addresses
from tests.pipeline import layer2, namespace, stored, workload
from tests.unit.controllers.test_egress_ips import egress_ip
from tests.unit.operations.test_limited_moves import hosts_with

ADDRESS = "192.0.2.100"
NETWORK = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64") + workload("red", "a", "node4")
TEXT = NETWORK + egress_ip("out", ADDRESS)
FIRST = stored(TEXT, hosts=hosts_with("node2"))
SECOND = stored(TEXT, FIRST, hosts=hosts_with("node3"))
NOW = "2026-01-01T00:00:00Z"


def after(snapshot, *hosts: str) -> dict:
    """The moves that are left when these hosts are known to have the plan."""
    copy = dataclasses.replace(snapshot, objects=dict(snapshot.objects))
    end_moves(copy, hosts)
    return unfinished_moves(copy)


def test_a_move_is_kept_until_its_hosts_have_the_plan():
    assert unfinished_moves(FIRST) == {}
    assert unfinished_moves(SECOND) == {ADDRESS: ["node2"]}
    # A run with the same manifests, in which none reports.
    again = stored(TEXT, SECOND, hosts=hosts_with("node3"))
    assert again == SECOND
    assert after(again, "node1", "node4") == {ADDRESS: ["node2"]}
    # The former host has given it up, or the new one has it.
    assert after(again, "node2") == after(again, "node3") == {}


def test_several_hosts_may_have_an_address_and_one_that_gets_it_back_is_none_of_them():
    third = stored(TEXT, SECOND, hosts=hosts_with("node5"))
    assert unfinished_moves(third) == {ADDRESS: ["node2", "node3"]}
    assert after(third, "node3") == {ADDRESS: ["node2"]}
    back = stored(TEXT, third, hosts=hosts_with("node2"))
    assert unfinished_moves(back) == {ADDRESS: ["node3", "node5"]}


def test_an_address_that_is_no_object_s_any_more_may_still_be_at_its_host():
    without = stored(NETWORK, FIRST, hosts=hosts_with("node2"))
    assert unfinished_moves(without) == {ADDRESS: ["node2"]}
    assert after(without, "node3") == {ADDRESS: ["node2"]}
    assert after(without, "node2") == {}
    anew = stored(NETWORK + egress_ip("other", ADDRESS), without, hosts=hosts_with("node3"))
    plans = build_plan(without), build_plan(anew)
    assert moved_addresses(*plans) == {}
    assert moved_addresses(*plans, unfinished=unfinished_moves(anew)) == {ADDRESS: "node2"}


def test_a_host_that_left_the_inventory_is_none_of_them():
    gone = {name: host for name, host in hosts_with("node3").items() if name != "node2"}
    assert unfinished_moves(stored(TEXT, SECOND, hosts=gone)) == {}


def test_what_hosts_report_counts_where_a_move_was_cut_off():
    plan, unfinished = build_plan(SECOND), unfinished_moves(SECOND)
    assert moved_addresses(plan, plan, {}, unfinished) == {ADDRESS: "node2"}
    assert moved_addresses(plan, plan, {"node2": [ADDRESS], "node3": []}, unfinished) == {ADDRESS: "node2"}
    assert moved_addresses(plan, plan, {"node2": [], "node3": [ADDRESS]}, unfinished) == {}
    # It moves on, and its host by the plan is the last that is known to have had it.
    third = stored(TEXT, SECOND, hosts=hosts_with("node5"))
    assert moved_addresses(plan, build_plan(third), {}, unfinished_moves(third)) == {ADDRESS: "node3"}


def test_reports_of_hosts_end_moves():
    state = dataclasses.replace(SECOND, revision=1)
    digests = Plans().of_hosts(state).digests

    def reported(**reports: dict) -> dict:
        return unfinished_moves(with_readiness(state, {name: {} for name in digests} | reports, NOW))

    has_plan = {"digest": digests["node2"], "drift": [], "problems": []}
    assert reported() == {ADDRESS: ["node2"]}
    assert reported(node2={**has_plan, "digest": "former"}) == {ADDRESS: ["node2"]}
    assert reported(node2={"failed": True, "msg": "broken"}) == {ADDRESS: ["node2"]}
    assert reported(node2=has_plan) == {}
    assert reported(node3={**has_plan, "digest": digests["node3"], "drift": [{"network": "red_net"}]}) == {}
