# SPDX-License-Identifier: Apache-2.0
"""When a host counts as being as the plan that it has, without a comparison beyond what was recorded."""

from __future__ import annotations

import json

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from ansible_collections.heddle.ovn.plugins.module_utils.agent import context as agent_context
from ansible_collections.heddle.ovn.plugins.module_utils.agent import follow_ups, northd_recompute
from ansible_collections.heddle.ovn.plugins.module_utils.agent.comparison_record import ComparisonRecord, NotRecorded
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import Request, UserError
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit import described_host
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

CLEAN = {"drift": [], "problems": [], "stopped": [], "digest": "", "paths": []}
CHANGE = Change("kernel", "create", "link", "red", "red_net", {}, {})


class Host:
    """What a host has and reports, with the engines replaced; `reads` counts how many of them were asked."""

    def __init__(self, path) -> None:
        self.path, self.reads = path, 0
        manifests = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "w", "node1")
        self.plan = plan_of(manifests, hosts=with_gateways("shared"))
        self.summary = {**CLEAN, "digest": self.plan["digest"]}
        self.outcome: Outcome | Exception = Outcome()
        self.applied, self.programmed, self.up, self.missing = self.plan["digest"], True, True, []
        self.store(self.plan)

    def store(self, plan: dict) -> None:
        self.path.write_text(json.dumps(plan))

    def part(self, context, plan) -> Outcome:
        self.reads += 1
        assert not context.write and context.record.only
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def found(self, node: str = "node1") -> dict:
        return described_host.as_planned(node, "sources", str(self.path))


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host that is as its plan."""
    made = Host(tmp_path / "plan.json")
    monkeypatch.setattr(agent_context, "LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.setattr(northd_recompute, "PENDING_FILE", str(tmp_path / "northd-pending"))
    monkeypatch.setattr(follow_ups, "FILE", str(tmp_path / "follow-ups.json"))
    monkeypatch.setattr(described_host, "PARTS", {"topology": made.part, "workloads": made.part})
    monkeypatch.setattr(described_host, "applied_digest", lambda: made.applied)
    monkeypatch.setattr(described_host, "is_programmed", lambda plan, node: made.programmed)
    monkeypatch.setattr(described_host, "are_up", lambda plan, node: made.up)
    monkeypatch.setattr(described_host, "missing_services", lambda plan: made.missing)
    monkeypatch.setattr(described_host.Comparison, "summary", lambda self, written, chassis: made.summary)
    return made


def test_a_host_as_its_plan_has_the_audit_of_that_plan(host):
    assert host.found() == {"audit": {**CLEAN, "digest": host.plan["digest"]}}
    assert host.reads == 2


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome((CHANGE,)), Outcome(notes=("egress address 192.0.2.1: no NIC",)), Outcome(refused=(("red_net", "no"),)),
        NotRecorded("flows"), UserError("no bridge"), OSError(5, "read"), NetlinkError(16),
    ],
)  # fmt: skip
def test_what_differs_or_is_not_recorded_is_for_the_module_zone(host, outcome):
    host.outcome = outcome
    assert host.found() == {}
    assert host.reads == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("applied", "another"), ("programmed", False), ("up", False), ("missing", ["mesh"]),
        ("summary", {**CLEAN, "drift": [{"network": "red_net"}]}), ("summary", {**CLEAN, "problems": ["other id"]}),
        ("summary", {**CLEAN, "stopped": ["ovn-northd"]}),
    ],
)  # fmt: skip
def test_a_host_that_is_not_done_or_lacks_something_is_for_the_module_zone(host, name, value):
    setattr(host, name, value)
    assert host.found() == {}


@pytest.mark.parametrize("damage", ["edited", "missing", "no JSON", "without the node"])
def test_a_stored_plan_that_cannot_be_trusted_is_not_compared(host, damage):
    if damage == "edited":
        host.store({**host.plan, "workloads": {}})
    elif damage == "missing":
        host.path.unlink()
    elif damage == "no JSON":
        host.path.write_text("{")
    assert host.found("node9" if damage == "without the node" else "node1") == {}
    assert host.reads == 0


@pytest.mark.parametrize(
    ("options", "differences", "compared"),
    [
        ({}, [], True), ({"check_mode": True}, [], False), ({"diff": True}, [], False), ({}, ["create Bridge"], False),
        ({"wanted": False}, [], False),
    ],
)  # fmt: skip
def test_only_an_ordinary_run_of_an_installed_host_compares(monkeypatch, options, differences, compared):
    monkeypatch.setattr(described_host, "described", lambda request: {"differences": differences})
    monkeypatch.setattr(described_host, "as_planned", lambda node, sources: {"audit": {"digest": sources}})
    params = {"name": "node1", "compared": options.get("wanted", True)}
    request = Request(params, options.get("check_mode", False), options.get("diff", False), "sources")
    assert ("audit" in described_host.chassis_info_result(request)) is compared


def test_without_a_fitting_record_nothing_is_compared_where_only_records_count(tmp_path):
    path = str(tmp_path / "compared.json")
    with pytest.raises(NotRecorded):
        ComparisonRecord("sources", path, only=True).holds("flows", "key", lambda read: True)
    ComparisonRecord("sources", path).keep("flows", "key", {"requests": []})
    assert ComparisonRecord("sources", path, only=True).holds("flows", "key", lambda read: True)
    with pytest.raises(NotRecorded):
        ComparisonRecord("sources", path, only=True).holds("flows", "key", lambda read: False)


def test_a_record_of_the_same_rendered_state_holds_for_another_plan(tmp_path):
    record = ComparisonRecord("sources", str(tmp_path / "compared.json"))
    calls = []

    def rendered(text):
        return lambda: calls.append(text) or text

    assert not record.holds("flows", "plan 1", lambda read: True, rendered("a"))
    record.keep("flows", "plan 1", {"requests": []}, "a")
    assert record.holds("flows", "plan 1", lambda read: True, rendered("b"))
    assert not calls, "an equal plan needs no rendering"
    assert not record.holds("flows", "plan 2", lambda read: True)
    assert not record.holds("flows", "plan 2", lambda read: True, rendered("b"))
    assert not record.holds("flows", "plan 2", lambda read: False, rendered("a")), "what is read has changed"
    assert record.holds("flows", "plan 2", lambda read: True, rendered("a"))
    assert record.holds("flows", "plan 2", lambda read: True), "it is kept for that plan"
    with pytest.raises(NotRecorded):
        ComparisonRecord("sources", record.path, only=True).holds("flows", "plan 3", lambda read: True, rendered("a"))
    # Of a release before, or without anything rendered.
    record.keep("rows", "plan 1", {"requests": []})
    assert not record.holds("rows", "plan 2", lambda read: True, rendered("a"))


def test_a_host_whose_northd_has_to_compute_everything_has_something_to_apply(host):
    """Nothing else shows it: what was written is there."""
    assert host.found()
    northd_recompute.begin()
    assert not host.found()
    northd_recompute.end()
    assert host.found()


def test_a_host_on_which_a_run_was_killed_before_it_announced_an_address_has_something_to_apply(host):
    follow_ups.note(follow_ups.ANNOUNCEMENTS, ["br-provider 192.0.2.100/32"])
    assert not host.found()
    follow_ups.done(follow_ups.ANNOUNCEMENTS, ["br-provider 192.0.2.100/32"])
    assert host.found()
