# SPDX-License-Identifier: Apache-2.0
"""A configuration that BIRD refuses is an error of address pools: all else of the host is applied."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import workloads
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import refusal
from ansible_collections.heddle.ovn.plugins.module_utils.bird.control import BirdError
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.pipeline import namespace, nodes, plan_of, workload

PLAN = plan_of(
    "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: p}\n"
    "spec: {subnets: [{ipv4: 10.2.0.0/24}]}\n"
    + namespace("routed", primary=False).rstrip()
    + "\n  annotations: {coil.cybozu.com/pool: p}\n"
    + workload("routed", "one", "node1")
    + namespace("plain", primary=False)
    + workload("plain", "two", "node1"),
    hosts=nodes("node1"),
)
REASON = "BIRD does not accept its configuration: heddle_template.conf:1:1 syntax error"


@pytest.fixture
def applied(monkeypatch):
    """Names of what was applied on a host whose BIRD refuses its configuration."""
    done = []

    def refuses(*_arguments, **_options):
        raise BirdError(REASON)

    def step(name):
        return lambda *_arguments, **_options: done.append(name) or Outcome()

    names = (
        "end_vms", "reconcile_endpoints", "reconcile_routed_workloads", "apply_egress", "reconcile_taps",
        "reconcile_vms", "_switch_ports", "_wait_for_workloads",
    )  # fmt: skip
    for name in names:
        monkeypatch.setattr(workloads, name, step(name))
    monkeypatch.setattr(workloads, "_uses_userspace", lambda _plan, *, write: False)
    monkeypatch.setattr(workloads, "uplink_mtu", lambda: 1500)
    monkeypatch.setattr(workloads, "reconcile_bird", refuses)
    monkeypatch.setattr(kernel, "PYROUTE2_IMPORT_ERROR", None)
    return done


def test_ports_of_ovn_are_switched_and_awaited(applied):
    outcome = workloads.apply_workloads(NodeContext("node1", "", write=True, timeout=1), PLAN)
    assert {"apply_egress", "_switch_ports", "reconcile_vms", "_wait_for_workloads"} <= set(applied)
    assert refusal(outcome) == f"address pools: {REASON}"


def test_the_service_retries_what_concerns_pools(applied):
    outcome = workloads.apply_routed_workloads(NodeContext("node1", "", write=True), PLAN)
    assert applied == ["reconcile_routed_workloads"]
    assert refusal(outcome) == f"address pools: {REASON}"


def test_a_comparison_reports_it_as_a_problem(applied):
    with pytest.raises(BirdError):
        workloads.apply_routed_workloads(NodeContext("node1", "", write=False), PLAN)
