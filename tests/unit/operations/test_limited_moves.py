# SPDX-License-Identifier: Apache-2.0
"""Addresses do not move in runs that leave out a host which the move needs, nor unnoticed from hosts that are gone."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.unfinished_moves import unfinished_moves
from ansible_collections.heddle.ovn.plugins.module_utils.operations.limited_moves import (
    departed_lines,
    hosts_left_out,
    move_hosts,
    refuse_left_out,
    update_holders_within,
)
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import with_probes
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.plan.address_holders import holders
from tests.pipeline import labelled, layer2, namespace, nodes, stored, with_gateways, workload
from tests.unit.controllers.test_egress_ips import egress_ip
from tests.unit.controllers.test_external_services import LATE, pool, service

HOSTS = labelled(with_gateways("shared", nodes("node1", "node2", "node3", "node4", "node5")))
ADDRESS = "192.0.2.100"
TEXT = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64") + workload("red", "a", "node4")
TEXT += egress_ip("out", ADDRESS)


def hosts_with(*names: str, among: tuple[str, ...] = tuple(HOSTS)) -> dict:
    return {name: HOSTS[name] if name in names else {**HOSTS[name], "labels": {}} for name in among}


BEFORE = stored(TEXT, hosts=hosts_with("node2"))
AFTER = stored(TEXT, BEFORE, hosts=hosts_with("node3"))
PLANS = build_plan(BEFORE), build_plan(AFTER)


def test_hosts_beyond_the_limit():
    reports = {"node1": {"asked": False}, "node2": {}, "node3": {"asked": True}, "node4": {"digest": "1"}}
    assert hosts_left_out(reports) == {"node1"}


def test_a_move_needs_its_hosts_and_those_of_the_workloads():
    assert move_hosts(PLANS[1], {ADDRESS: "node2"}) == {ADDRESS: {"node2", "node3", "node4"}}


@pytest.mark.parametrize("left_out", ["node2", "node3", "node4"])
def test_a_run_without_a_host_that_a_move_needs_is_refused(left_out: str):
    with pytest.raises(UserError) as refusal:
        refuse_left_out(*PLANS, {left_out, "node1"})
    assert str(refusal.value) == (
        f"the limit of this run leaves out {left_out}, and addresses move that these hosts have, get, or send with: "
        f"{ADDRESS} from node2 to node3; nothing was written. Add them to --limit, or run this without a limit"
    )


def test_a_run_without_other_hosts_or_without_a_move_is_not_refused():
    refuse_left_out(*PLANS, {"node1", "node5"})
    refuse_left_out(*PLANS, set())
    refuse_left_out(PLANS[1], PLANS[1], set(HOSTS))


# A run was cut off when the state had the move, and hosts had not.
UNFINISHED = unfinished_moves(AFTER)


@pytest.mark.parametrize("left_out", ["node2", "node3", "node4"])
def test_a_limited_run_after_one_that_was_cut_off_in_a_move_is_refused(left_out: str):
    assert UNFINISHED == {ADDRESS: ["node2"]}
    with pytest.raises(UserError) as refusal:
        refuse_left_out(PLANS[1], PLANS[1], {left_out}, UNFINISHED)
    assert str(refusal.value) == (
        f"the limit of this run leaves out {left_out}, and addresses move that these hosts have, get, or send with: "
        f"{ADDRESS} from node2 to node3; nothing was written. Add them to --limit, or run this without a limit"
    )


def test_a_limited_run_is_not_refused_when_the_new_host_has_the_address():
    refuse_left_out(PLANS[1], PLANS[1], {"node2"}, UNFINISHED, {"node3": [ADDRESS]})
    # It is about to move to yet another host.
    third = build_plan(stored(TEXT, AFTER, hosts=hosts_with("node5")))
    refuse_left_out(PLANS[1], third, {"node2"}, UNFINISHED, {"node3": [ADDRESS]})
    with pytest.raises(UserError, match=r"leaves out node2, .* from node3 to node5"):
        refuse_left_out(PLANS[1], third, {"node2"}, UNFINISHED, {"node3": []})


def test_other_hosts_are_not_needed_for_a_move_that_was_cut_off():
    refuse_left_out(PLANS[1], PLANS[1], {"node1", "node5"}, UNFINISHED)
    # Nothing has the address by the state any more.
    without = build_plan(stored(TEXT.replace(egress_ip("out", ADDRESS), ""), AFTER, hosts=hosts_with("node3")))
    refuse_left_out(PLANS[1], without, {"node2", "node3"}, UNFINISHED)


def test_the_address_of_a_load_balancer_needs_its_two_hosts():
    text = TEXT.replace(egress_ip("out", ADDRESS), "") + pool("192.0.2.200/31")
    text = text.replace(": red}", ": red, labels: {app: web}}") + service("type: LoadBalancer")
    excluded = {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}
    before = stored(text, hosts=HOSTS)
    (former,) = set(holders(build_plan(before)).values())
    after = stored(text, before, hosts={**HOSTS, former: {**HOSTS[former], **excluded}})
    (new,) = set(holders(build_plan(after)).values()) - {former}
    for host in HOSTS:
        if host in (former, new):
            with pytest.raises(UserError, match=f"leaves out {host}, .* from {former} to {new}"):
                refuse_left_out(build_plan(before), build_plan(after), {host})
        else:
            refuse_left_out(build_plan(before), build_plan(after), {host})


PROBED = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64") + pool("192.0.2.200/31", "2001:db8::c00/127")
    + "".join(
        workload("red", name, f"{node}, readiness: {{tcpSocket: {{port: 80}}}}").replace(
            ": red}", ": red, labels: {app: web}}"
        )
        for name, node in (("a", "node2"), ("b", "node3"))
    )
    + service("type: LoadBalancer, externalTrafficPolicy: Local, ipFamilyPolicy: RequireDualStack")
)  # fmt: skip
UP, DOWN = {"ready": True, "message": ""}, {"ready": False, "message": "no answer"}


def test_a_report_of_probes_moves_no_address_without_the_hosts_of_the_move():
    first = with_probes(stored(PROBED, hosts=HOSTS), {"node2": {"red/a": UP}, "node3": {"red/b": DOWN}}, LATE)
    assert set(holders(build_plan(first)).values()) == {"node2"}
    other = {"node2": {"red/a": DOWN}, "node3": {"red/b": UP}}
    assert set(holders(build_plan(with_probes(first, other, LATE))).values()) == {"node3"}
    for left_out in ("node2", "node3"):
        found = with_probes(first, other, LATE, {left_out})
        assert set(holders(build_plan(found)).values()) == {"node2"}
        assert condition(found.objects["Service/red/web"], "Announced")["status"] == "False"
        # The next run without that limit moves it.
        later = stored(PROBED, found, hosts=HOSTS)
        assert set(holders(build_plan(later)).values()) == {"node3"}
    assert set(holders(build_plan(with_probes(first, other, LATE, {"node5"}))).values()) == {"node3"}


def test_an_address_that_stays_says_so_and_others_move():
    text = TEXT + egress_ip("more", "192.0.2.110")
    before = stored(text, hosts=hosts_with("node2", "node5"))
    held = holders(build_plan(before))
    assert set(held.values()) == {"node2", "node5"}
    after = stored(text, before, hosts=hosts_with("node1", "node3"))
    changed = dataclasses.replace(after, objects={**after.objects, **{
        key: entry for key, entry in before.objects.items() if entry.kind == "EgressIP"
    }})  # fmt: skip
    update_holders_within(before, changed, LATE, {held[ADDRESS]})
    found = holders(build_plan(changed))
    assert found[ADDRESS] == held[ADDRESS]
    assert found["192.0.2.110"] in ("node1", "node3")
    assert condition(changed.objects["EgressIP/out"], "Assigned")["message"] == (
        f"{ADDRESS} is still at {held[ADDRESS]}, which has not given it up: run heddle.ovn.networks again"
    )
    assert condition(changed.objects["EgressIP/more"], "Assigned")["status"] == "True"


def test_a_host_that_left_the_inventory_with_addresses_is_reported():
    kept = tuple(name for name in HOSTS if name != "node2")
    after = build_plan(stored(TEXT, BEFORE, hosts=hosts_with("node3", among=kept)))
    assert departed_lines(PLANS[0], after) == [
        f"node2 has left the inventory with {ADDRESS} (now at node3): no run reaches it. While it runs it answers for "
        "these addresses and sends with them, unless Heddle was removed from it before. Switch it off, or put it into "
        "the inventory again, run heddle.ovn.uninstall --limit node2, and take it out"
    ]
    alone = build_plan(stored(TEXT, BEFORE, hosts=hosts_with(among=kept)))
    assert f"{ADDRESS} (now at no host)" in departed_lines(PLANS[0], alone)[0]
    assert departed_lines(*PLANS) == []
    others = build_plan(stored(TEXT, BEFORE, hosts=hosts_with("node2", among=tuple(HOSTS)[:4])))
    assert departed_lines(PLANS[0], others) == []
