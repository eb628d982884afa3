# SPDX-License-Identifier: Apache-2.0
"""Where a record shows that a host is as its former plan, only what differs between the plans is compared and written.

Nothing is hidden by that: whatever else is not as the former plan wants it means a comparison of all rows.
"""

from __future__ import annotations

import copy
import random

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import first_changes, topology
from ansible_collections.heddle.ovn.plugins.module_utils.agent.comparison_record import ComparisonRecord
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render import northbound as rendered_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from tests.pipeline import EVERYWHERE, layer2, layer3, namespace, plan_of, stored, with_gateways, workload

from .network import actions
from .test_first_changes import BALANCER, SERVICE, Zone, plan
from .test_narrowing import STEPS, Tenants, damage

BLUE = "blue_net_ovn_layer2_switch"
WORKLOAD = (
    "---\napiVersion: heddle.dev/v1\nkind: Workload\nmetadata: {{name: {}, namespace: red}}\nspec: {{node: {}}}\n"
)


class Recorded(Zone):
    """node1's databases, with a record of comparisons; `compared` counts those of all Northbound rows."""

    def __init__(self, northbound, path, monkeypatch) -> None:
        super().__init__(northbound)
        self.path, self.compared = path, 0
        render = topology.render_northbound

        def counted(wanted, node):
            self.compared += 1
            return render(wanted, node)

        monkeypatch.setattr(topology, "render_northbound", counted)

    def run(self, wanted: dict, former: dict | None, *, write: bool = True) -> tuple[Outcome, bool]:
        """Apply; return the outcome, and whether all rows were compared."""
        record = ComparisonRecord("sources", str(self.path)) if write else None
        context, before = NodeContext("node1", "", write=write, record=record, former=former), self.compared
        return topology.apply_topology(context, wanted), self.compared > before

    def settle(self, wanted: dict) -> None:
        """Apply a plan until its comparison is recorded."""
        self.run(wanted, None)
        assert self.run(wanted, wanted) == (Outcome(), True)
        assert self.run(wanted, wanted) == (Outcome(), False)

    def empty(self, table: str, column: str, name: str) -> None:
        """Empty a map of a row, as another client."""
        row = {column: ["map", []]}
        self.northbound.transact({"op": "update", "table": table, "where": [["name", "==", name]], "row": row})


@pytest.fixture
def zone(monkeypatch, folder, northbound, southbound, vswitch) -> Recorded:
    monkeypatch.setattr(topology, "SYSTEM_ID_FILE", str(folder / "system-id"))
    for name, server in (("NORTHBOUND", northbound), ("SOUTHBOUND", southbound), ("VSWITCH", vswitch)):
        monkeypatch.setattr(topology, f"{name}_REMOTE", server.remote)
    northbound.transact({"op": "insert", "table": "NB_Global", "row": {}})
    vswitch.transact({"op": "insert", "table": "Open_vSwitch", "row": {}})
    return Recorded(northbound, folder / "compared.json", monkeypatch)


def workloads(*placed: tuple[str, str]) -> dict:
    text = "".join(namespace(one) + layer2(one, "net", "10.1.0.0/24") for one in ("red", "blue")) + SERVICE
    text += "".join(WORKLOAD.format(*one) for one in placed)
    return plan_of(text, hosts=with_gateways("shared"), settings=EVERYWHERE)


def test_only_the_difference_is_compared_and_the_next_run_has_a_record(zone):
    former, wanted = plan(ready=True), plan(ready=False)
    zone.settle(former)
    outcome, compared = zone.run(wanted, former)
    assert (actions(outcome), compared) == ([BALANCER], False)
    assert zone.run(wanted, wanted) == (Outcome(), False)
    assert not zone.run(wanted, None, write=False)[0].changed


def test_replaced_workloads_of_this_and_of_another_host(zone):
    first, then = workloads(("a", "node1"), ("b", "node2")), workloads(("c", "node1"), ("d", "node2"))
    zone.settle(first)
    outcome, compared = zone.run(then, first)
    assert outcome.changed and not compared
    assert zone.run(then, then) == (Outcome(), False)
    assert not zone.run(then, None, write=False)[0].changed


def growing(*networks: str, before: Snapshot | None = None) -> Snapshot:
    """A state with further networks, each with a workload here; one of them is a Layer3 network."""
    text = "".join(namespace(one) + layer2(one, "net", "10.1.0.0/24") for one in ("red", "blue")) + SERVICE
    text += WORKLOAD.format("a", "node1")
    for name in networks:
        network = layer3(name, "net", "10.2.0.0/16", 24) if name == "green" else layer2(name, "net", "10.3.0.0/24")
        text += namespace(name) + network + workload(name, "w", "node1") + SERVICE.replace("red", name)
    return stored(text, before, hosts=with_gateways("shared"), settings=EVERYWHERE)


def with_and_without(network: str) -> tuple[dict, dict]:
    """The plan without a network, and that with it, in which all else is as before."""
    before = growing()
    return build_plan(before), build_plan(growing(network, before=before))


@pytest.mark.parametrize("network", ["green", "grey"])
def test_a_network_comes_and_goes(zone, monkeypatch, network):
    """With as many networks as there may be here without another limit of ARP."""
    monkeypatch.setattr(rendered_northbound, "FEW_ROUTERS", 1)
    first, then = with_and_without(network)
    zone.settle(first)
    for former, wanted in ((first, then), (then, first)):
        outcome, compared = zone.run(wanted, former)
        assert not compared
        assert {f"{network}_net", "default"} >= {change.network for change in outcome.changes} >= {f"{network}_net"}
        assert zone.run(wanted, wanted) == (Outcome(), False)
        assert not zone.run(wanted, None, write=False)[0].changed
    found = zone.northbound.dump()
    zone.apply(then, None)
    zone.apply(first, None)
    assert without_numbers(zone.northbound.dump()) == without_numbers(found)


def without_numbers(tables: dict) -> dict:
    return {name: rows for name, rows in tables.items() if name != "NB_Global"}


def test_another_limit_of_arp_means_a_comparison_of_everything(zone):
    first, then = with_and_without("grey")
    zone.settle(first)
    outcome, compared = zone.run(then, first)
    assert compared and "arp-rate-limiter" in str(actions(outcome))
    assert not zone.run(then, None, write=False)[0].changed


def test_rows_of_a_network_that_was_cut_off_are_no_obstacle(zone):
    first, then = with_and_without("grey")
    zone.settle(first)
    zone.apply(then, None)
    assert not zone.run(then, first)[0].changed
    assert zone.run(first, then)[0].changed
    assert not zone.run(first, None, write=False)[0].changed


def test_a_plan_that_changes_nothing_here_needs_no_comparison(zone):
    former = plan(ready=True)
    zone.settle(former)
    wanted = {**former, "digest": "another", "revision": former["revision"] + 1}
    assert zone.run(wanted, former) == (Outcome(), False)
    assert zone.run(wanted, wanted) == (Outcome(), False)


@pytest.mark.parametrize("when", ["before", "after the write", "while it is compared"])
def test_drift_of_what_changes_is_repaired_in_the_same_run(zone, monkeypatch, when):
    former, wanted = plan(ready=True), plan(ready=False)
    zone.settle(former)
    write, read = first_changes.FirstChanges.write, first_changes.FirstChanges._read_written

    def drift() -> None:
        zone.empty("Load_Balancer", "vips", BALANCER.split()[-1])

    def then_drift(self, *words):
        try:
            return (write if when == "after the write" else read)(self, *words)
        finally:
            drift()

    if when == "before":
        drift()
    name = {"after the write": "write", "while it is compared": "_read_written"}.get(when)
    with monkeypatch.context() as patch:
        if name:
            patch.setattr(first_changes.FirstChanges, name, then_drift)
        outcome, compared = zone.run(wanted, former)
    assert compared and outcome.changed
    assert not zone.apply(wanted, None).changed


def test_drift_of_what_does_not_change_is_repaired_in_the_same_run(zone):
    former, wanted = plan(ready=True), plan(ready=False)
    zone.settle(former)
    zone.empty("Logical_Switch", "other_config", BLUE)
    outcome, compared = zone.run(wanted, former)
    assert compared and actions(outcome) == [BALANCER, f"update Logical_Switch {BLUE}"]
    assert not zone.apply(wanted, None).changed


def test_drift_after_that_was_read_is_repaired_by_the_next_run(zone, monkeypatch):
    """As drift after a comparison of everything."""
    former, wanted = plan(ready=True), plan(ready=False)
    zone.settle(former)
    write = first_changes.FirstChanges.write

    def then_drift(self, *words):
        try:
            return write(self, *words)
        finally:
            zone.empty("Logical_Switch", "other_config", BLUE)

    with monkeypatch.context() as patch:
        patch.setattr(first_changes.FirstChanges, "write", then_drift)
        assert zone.run(wanted, former)[1] is False
    outcome, compared = zone.run(wanted, wanted)
    assert compared and actions(outcome) == [f"update Logical_Switch {BLUE}"]
    assert not zone.apply(wanted, None).changed


def test_an_edited_former_plan_is_not_relied_on(zone):
    """It says that the host has what it lacks."""
    former, wanted = plan(ready=True), plan(ready=False)
    zone.settle(former)
    edited = copy.deepcopy(former)
    edited["services"] = wanted["services"]
    outcome, compared = zone.run(wanted, edited)
    assert (actions(outcome), compared) == ([BALANCER], True)


@pytest.mark.parametrize("text", ["", "[]", '{"OVN_Northbound": {"key": "x"}}', '{"OVN_Northbound": []}'])
def test_a_damaged_record_means_a_comparison_of_everything(zone, text):
    former, wanted = plan(ready=True), plan(ready=False)
    zone.settle(former)
    zone.path.write_text(text)
    outcome, compared = zone.run(wanted, former)
    assert (actions(outcome), compared) == ([BALANCER], True)


def test_a_run_that_was_cut_off_is_completed(zone, monkeypatch):
    """The plan is stored before anything is written, so the next run finds no difference between the plans."""
    former, wanted = plan(ready=True), plan(ready=False)
    zone.settle(former)
    with monkeypatch.context() as patch:
        patch.setattr(first_changes.FirstChanges, "write", lambda *_words: Outcome())
        patch.setattr(first_changes.FirstChanges, "complete", lambda *_words: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            zone.run(wanted, former)
    outcome, compared = zone.run(wanted, wanted)
    assert (actions(outcome), compared) == ([BALANCER], True)


@pytest.mark.parametrize(("seed", "further"), [(20, ()), (21, ()), (22, ("green", "grey")), (23, ("green", "grey"))])
def test_a_host_is_as_its_plan_after_each_of_many_runs(zone, seed, further):
    """Objects and further networks come and go at random, and another client damages rows between some of the runs."""
    chance, tenants = random.Random(seed), Tenants(seed, further)
    former = tenants.plan()
    zone.settle(former)
    short = 0
    for step in range(STEPS):
        tenants.change()
        wanted = tenants.plan()
        if step % 4 == 3:
            damage(zone.northbound, chance)
        _outcome, compared = zone.run(wanted, former)
        short += not compared
        left = zone.run(wanted, None, write=False)[0]
        assert not left.changed, [str(change) for change in left.changes]
        former = wanted
    assert short > STEPS / 4
