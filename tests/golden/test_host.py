# SPDX-License-Identifier: Apache-2.0
"""Manifests to what a host with a way out gets besides Northbound rows.

`host/NAME.yml` is the input; `NAME.flows` is node1's provider bridge, `NAME.network` `NAME.firewall` its kernel.
A name ends with `-shared` or `-local`, the hosts' gateway mode. HEDDLE_RECORD=1 writes the expected files anew.
"""

import os
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.flow import DEFAULT_COOKIE, Flow
from ansible_collections.heddle.ovn.plugins.module_utils.render.bridge_flows import (
    render_bridge_flows,
    render_flood_ports,
    render_static_macs,
)
from tests.pipeline import THREE_NODES, plan_of, with_gateways

CASES = sorted((Path(__file__).parent / "host").glob("*.yml"))


def plan_for(case: Path) -> dict:
    return plan_of(case.read_text(), hosts=with_gateways(case.stem.rpartition("-")[2]))


def shown(flow: Flow) -> str:
    cookie = "" if flow.cookie == DEFAULT_COOKIE else f" cookie={flow.cookie:#x}"
    return f"{flow.table} {flow.priority:3} [{flow.network}]{cookie} {flow.match or 'all'}\n        {flow.actions}\n"


def check(expected: Path, found: str) -> None:
    if os.environ.get("HEDDLE_RECORD"):
        expected.write_text(found)
    assert found == expected.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_flows(case):
    plan = plan_for(case)
    flows = sorted(render_bridge_flows(plan, "node1"), key=lambda flow: (flow.table, -flow.priority, flow.match))
    others = [*render_flood_ports(plan, "node1"), *render_static_macs(plan, "node1")]
    check(case.with_suffix(".flows"), "".join([*map(shown, flows), *(f"{entry}\n" for entry in others)]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_no_two_flows_are_the_same(case):
    keys = [(flow.table, flow.priority, flow.match) for flow in render_bridge_flows(plan_for(case), "node2")]
    assert len(set(keys)) == len(keys)


def test_a_host_without_a_way_out_gets_nothing():
    plan = plan_of(CASES[0].read_text(), hosts=THREE_NODES)
    assert not render_bridge_flows(plan, "node1")
    assert not render_flood_ports(plan, "node1")
    assert not render_static_macs(plan, "node1")
