# SPDX-License-Identifier: Apache-2.0
"""The steps in which addresses move: what each writes, in which order, and what may leave a host after each."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import node_gateway, topology, zone
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves import steps
from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves.steps import lead_workloads, take_addresses
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import host_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.egress.move_notices import CLAIMING, RELEASED, Notice
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.egress_flows import render_egress_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_held_addresses
from tests.unit.agent.moves.moving_hosts import (
    MOVED,
    NETWORKS,
    STEPS,
    Hosts,
    egress_plan,
    kept_plan,
    leads_to,
    sends_with,
    takes,
)


@pytest.mark.parametrize("network", NETWORKS)
def test_each_step_in_any_order_of_hosts(monkeypatch, tmp_path, network):
    """Nothing leaves with the address by two hosts, and where it may arrive it is not taken for other packets."""
    before, after = egress_plan("node1", network=network), egress_plan("node2", network=network)
    hosts = Hosts(monkeypatch, tmp_path, before)
    everything = list(zone.PARTS)

    def state() -> dict[str, tuple[bool, bool, bool]]:
        """By host: whether it answers for the address, sends with it, and takes packets that are to leave with it."""
        plans = {node: hosts.stored(node) for node in ("node1", "node2", "node3")}
        return {
            node: (bool(render_held_addresses(plan, node)), sends_with(plan, node), takes(plan, node))
            for node, plan in plans.items()
        }

    former, none = (True, True, True), (False, False, False)
    withheld = (False, False, True)
    assert state() == {"node1": former, "node2": none, "node3": none}
    assert [hosts.take(STEPS[0], node, after) for node in ("node1", "node2", "node3")] == [everything] * 3
    assert state() == {"node1": former, "node2": withheld, "node3": none}
    way = {node: leads_to(hosts.stored(node), node) for node in ("node1", "node2", "node3")}
    # Only the former one has anything to do here.
    assert hosts.take(STEPS[1], "node2", after) == []
    assert hosts.take(STEPS[1], "node3", after) == []
    assert state() == {"node1": former, "node2": withheld, "node3": none}
    assert hosts.take(STEPS[1], "node1", after) == ["release"]
    assert state() == {"node1": withheld, "node2": withheld, "node3": none}
    assert {node: leads_to(hosts.stored(node), node) for node in ("node2", "node3")} == {
        node: way[node] for node in ("node2", "node3")
    }
    # The third one is the first to lead its workloads to the new host, which has the address after that.
    assert hosts.take(STEPS[2], "node3", after) == ["rows", "wait"]
    assert state() == {"node1": withheld, "node2": withheld, "node3": none}
    assert hosts.take(STEPS[2], "node2", after) == ["claim", "rows", "wait"]
    assert state() == {"node1": withheld, "node2": former, "node3": none}
    assert hosts.take(STEPS[2], "node1", after) == ["rows", "wait"]
    assert state() == {"node1": withheld, "node2": former, "node3": none}
    for node, hops in way.items():
        assert leads_to(hosts.stored(node), node) == leads_to(after, node) != hops
    for node in ("node1", "node2", "node3"):
        assert hosts.apply(node, after) == everything
        assert hosts.stored(node) == after
    assert state() == {"node1": none, "node2": former, "node3": none}
    # A step again, as by a run after one that was cut off, does nothing.
    for step in STEPS[1:]:
        hosts.take(step, "node1", after, {})
        hosts.take(step, "node2", after, {})
    assert state() == {"node1": none, "node2": former, "node3": none}


@pytest.mark.parametrize("led", [False, True], ids=["not led", "led"])
@pytest.mark.parametrize("network", NETWORKS)
def test_an_address_that_its_host_has_not_given_up_is_on_no_other_host(monkeypatch, tmp_path, network, led):
    """Neither where hosts have prepared only, nor where they lead workloads to the new host already."""
    before, after = egress_plan("node1", network=network), egress_plan("node2", network=network)
    kept, nodes = kept_plan(network), ("node1", "node2", "node3")
    hosts = Hosts(monkeypatch, tmp_path, before)

    def having() -> set[str]:
        """The hosts that answer for the address or send with it."""
        plans = {node: hosts.stored(node) for node in nodes}
        return {node for node, plan in plans.items() if render_held_addresses(plan, node) or sends_with(plan, node)}

    way = {node: leads_to(before, node) for node in nodes}
    for node in nodes:
        hosts.take(STEPS[0], node, after)
        if led and node != "node1":
            lead_workloads(hosts.context(node), after, MOVED)
            take_addresses(hosts.context(node), after, MOVED, set())
    assert having() == {"node1"}
    for node in nodes:
        hosts.take(STEPS[2], node, kept, {})
        assert having() == {"node1"}
    for node in nodes:
        hosts.apply(node, kept)
        assert hosts.stored(node) == host_plan(kept, node)
        assert having() == {"node1"}
    assert {node: leads_to(hosts.stored(node), node) for node in nodes} == way
    # The next run moves it.
    for step, expected in zip(STEPS, ({"node1"}, set(), {"node2"}), strict=True):
        for node in nodes:
            hosts.take(step, node, after)
        assert having() == expected


REFUSED = Outcome(refused=(("red_net", "br-ex is gone"),))


@pytest.mark.parametrize(
    ("module", "name", "failure"),
    [
        (steps, "keep_plan", UserError("is read-only")),
        (topology, "is_programmed", UserError("no answer")),
        (node_gateway, "release_addresses", kernel.NetlinkFailure(16, "busy")),
        (node_gateway, "release_addresses", REFUSED),
    ],
    ids=["plan", "northd", "kernel", "refused network"],
)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_host_that_cannot_give_an_address_up_leads_its_workloads_back(
    monkeypatch, tmp_path, network, module, name, failure
):
    """They were led to the new host before, which sends nothing with the address."""
    before, after = egress_plan("node1", network=network), egress_plan("node2", network=network)
    hosts = Hosts(monkeypatch, tmp_path, before)
    for node in ("node1", "node2", "node3"):
        hosts.take(STEPS[0], node, after)
    stored = hosts.stored("node1")
    # Of a host that only loses an address this is the plan of before, so nothing was written yet.
    assert stored == host_plan(before, "node1")
    hosts.ready = {Notice(CLAIMING, "node2")}
    called, failures, record = getattr(module, name), [failure], topology.apply_first_changes

    def failing(*words, **options):
        if not failures:
            return called(*words, **options)
        if isinstance(failures[0], Outcome):
            return failures.pop()
        raise failures.pop()

    monkeypatch.setattr(module, name, failing)
    # OVN is waited for only where rows were written.
    written = Outcome((Change("OVN_Northbound", "update", "Logical_Router_Policy", "one", "", {}, {}),))
    monkeypatch.setattr(topology, "apply_first_changes", lambda *words: record(*words) + written)
    hosts.seen.clear()
    if failure is REFUSED:
        assert STEPS[1](hosts.context("node1"), after, MOVED).refused
    else:
        with pytest.raises(type(failure)):
            STEPS[1](hosts.context("node1"), after, MOVED)
    assert not failures
    led = [leads_to(plan, "node1") for what, plan in hosts.seen if what == "rows"]
    assert len(led) == 2
    assert led[0] != led[1] == leads_to(before, "node1")
    assert hosts.stored("node1") == stored
    assert RELEASED not in {one.kind for one in hosts.notices}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_host_that_was_cut_off_before_it_took_the_address_takes_it_with_the_plan(monkeypatch, tmp_path, network):
    before, after = egress_plan("node1", network=network), egress_plan("node2", network=network)
    hosts = Hosts(monkeypatch, tmp_path, before)
    for step in STEPS[:2]:
        hosts.take(step, "node2", after)
    assert hosts.apply("node2", after) == ["claim", *zone.PARTS]
    assert hosts.stored("node2") == after
    # A host without preparation needs all the rest before it answers.
    hosts.keep("node2", before)
    assert hosts.apply("node2", after) == [*zone.PARTS]


@pytest.mark.parametrize("network", NETWORKS)
def test_a_host_that_is_not_prepared_applies_the_plan_and_drops_what_it_does_not_have(monkeypatch, tmp_path, network):
    """Its workloads leave by the former host until then, which drops what they send."""
    before, after = egress_plan("node1", network=network), egress_plan("node2", network=network)
    # With something else in it, else the plan of hosts that get nothing would be the one with which they wait.
    hosts = Hosts(monkeypatch, tmp_path, {**before, "settings": {**before["settings"], "other": 1}, "digest": "other"})
    assert hosts.take(STEPS[1], "node3", after) == []
    assert hosts.take(STEPS[1], "node1", after) == ["release"]
    assert not sends_with(hosts.stored("node1"), "node1")
    assert takes(hosts.stored("node1"), "node1")
    for node in ("node1", "node2", "node3"):
        assert hosts.take(STEPS[2], node, after) == [*zone.PARTS]
    assert not sends_with(hosts.stored("node1"), "node1")
    assert takes(hosts.stored("node1"), "node1")
    assert hosts.stored("node2") == hosts.stored("node3") == after


def test_rows_that_could_not_be_written_alone_are_written_with_all_others(monkeypatch, tmp_path):
    before, after = egress_plan("node1"), egress_plan("node2")
    hosts = Hosts(monkeypatch, tmp_path, before)
    monkeypatch.setattr(topology, "apply_first_changes", lambda _context, _plan: None)
    for step in STEPS[:2]:
        hosts.take(step, "node3", after)
    assert hosts.take(STEPS[2], "node3", after) == ["topology"]


def test_one_address_of_an_object_comes_and_another_one_goes(monkeypatch, tmp_path):
    """Both have one mark; its packets leave with the address that the host has, if any."""
    before = egress_plan("node1")
    before["egress_ips"]["out"]["addresses"].append({"address": "192.0.2.101", "node": "node2"})
    after = json.loads(json.dumps(before))
    after["egress_ips"]["out"]["addresses"] = [
        {"address": "192.0.2.100", "node": "node2"}, {"address": "192.0.2.101", "node": "node1"},
    ]  # fmt: skip
    after["digest"] = "after"
    moved = {"192.0.2.100": "node1", "192.0.2.101": "node2"}
    hosts = Hosts(monkeypatch, tmp_path, before)
    hosts.take(STEPS[0], "node1", after, moved)
    assert sends_with(hosts.stored("node1"), "node1")
    hosts.take(STEPS[1], "node1", after, moved)
    assert not sends_with(hosts.stored("node1"), "node1")
    assert not sends_with(hosts.stored("node1"), "node1", "192.0.2.101")
    hosts.take(STEPS[2], "node1", after, moved)
    assert sends_with(hosts.stored("node1"), "node1", "192.0.2.101")
    assert [one.address for one in render_held_addresses(hosts.stored("node1"), "node1")] == ["192.0.2.101/32"]


@pytest.mark.parametrize("network", NETWORKS)
def test_flows_of_egress_addresses_are_among_those_of_the_bridge(network):
    plan = egress_plan("node1", network=network)
    found = render_egress_flows(plan, "node1")
    assert found
    assert set(found) < set(render_bridge_flows(plan, "node1"))
    assert render_egress_flows({**plan, "egress_ips": {}}, "node1") == []


@pytest.fixture
def written(monkeypatch) -> list:
    """What a host writes in the short steps, in its order."""
    seen = []
    monkeypatch.setattr(kernel, "PYROUTE2_IMPORT_ERROR", None)
    made = Outcome((Change("kernel", "create", "address", "breth1 192.0.2.100/32", "", {}, {}),))

    def flows(before, after, _node, *, removing):
        seen.append(("flows", removing, render_egress_flows(before, _node) != render_egress_flows(after, _node)))
        return Outcome()

    monkeypatch.setattr(node_gateway, "_egress_flows", flows)
    monkeypatch.setattr(node_gateway, "add_addresses", lambda held, **_more: seen.append(("add", [*held])) or made)
    monkeypatch.setattr(node_gateway, "remove_addresses", lambda lost: seen.append(("remove", [*lost])) or Outcome())
    announced = node_gateway.announcements
    monkeypatch.setattr(announced, "announce", lambda *words: seen.append(("announce", words[2])) or Outcome())
    monkeypatch.setattr(node_gateway, "_host_network", lambda *_words, **_more: pytest.fail("compares the host"))
    return seen


def test_a_former_host_sends_nothing_before_the_address_is_gone(written):
    before, after = egress_plan("node1"), egress_plan("node2")
    context = NodeContext("node1", "", write=True)
    node_gateway.release_addresses(context, before, after)
    assert [one[0] for one in written] == ["flows", "remove"]
    assert [one.address for one in written[1][1]] == ["192.0.2.100/32"]


def test_a_new_host_sends_nothing_before_the_address_is_there_and_announced(written):
    before, after = egress_plan("node1"), egress_plan("node2")
    context = NodeContext("node2", "", write=True)
    node_gateway.claim_addresses(context, before, after, ["192.0.2.100"])
    assert [one[0] for one in written] == ["add", "announce", "flows"]
    assert [one.address for one in written[0][1]] == ["192.0.2.100/32"]
    assert written[1][1] == {"breth1 192.0.2.100/32"}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_a_plan_that_another_run_has_replaced_is_refused(monkeypatch, tmp_path, step):
    """Else it would take an address from the host that has it by the later plan, and no host would get it."""
    moving = {**egress_plan("node2"), "revision": 11}
    hosts = Hosts(monkeypatch, tmp_path, {**egress_plan("node1"), "revision": 12})
    for node in ("node1", "node2"):
        with pytest.raises(UserError, match="is newer"):
            hosts.take(step, node, moving)
    assert not hosts.seen
