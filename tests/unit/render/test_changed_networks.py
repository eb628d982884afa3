# SPDX-License-Identifier: Apache-2.0
"""Rows of networks that do not count as changed are equal in the renderings of both plans, whatever came or went."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.changed_networks import changed_networks
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import host_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import EVERYWHERE, decide, layer2, layer3, namespace, plan_of, stored, with_gateways, workload
from tests.unit.controllers.test_any_admitted_set_renders import (
    ADMIN_POLICIES,
    CLUSTER,
    EGRESS_IPS,
    EGRESS_RULES,
    EGRESS_SERVICES,
    HOSTS,
    MULTI_POLICIES,
    NAMESPACED,
    POLICIES,
    SERVICES,
    SURROUNDINGS,
    WORKLOADS,
    valid,
)

TENANTS = "".join(namespace(f"n{number}") for number in range(14))
SEEN: Counter = Counter()


def check(former: dict, plan: dict, node: str) -> frozenset[str] | None:
    """Check that the reported networks are all that differs; return them."""
    networks = changed_networks(former, plan, node)
    if networks is None:
        return None
    before, after = render_northbound(former, node), render_northbound(plan, node)
    assert others(before, networks) == others(after, networks)
    for one, rows in ((former, before), (plan, after)):
        those = render_northbound(one, node, networks)
        # Common rows depend on all networks but for the meter of ACLs that log.
        assert sorted(map(repr, those)) == [repr(row) for row in ordered(rows) if row in those]
        assert others(those, networks) == []
        assert not [row for row in rows if row.network in networks and row not in those]
    if common(render_northbound(former, node, networks)) == common(render_northbound(plan, node, networks)):
        assert common(before) == common(after)
    return networks


def ordered(rows: list) -> list:
    return sorted(rows, key=repr)


def common(rows: list) -> list[str]:
    return sorted(repr(row) for row in rows if not row.network)


def others(rows: list, networks: frozenset[str]) -> list[str]:
    """The rows of other networks, without those common to all."""
    return sorted(repr(row) for row in rows if row.network and row.network not in networks)


def name_of(one: str) -> tuple:
    """What no two networks have in common: kind, namespace and name."""
    document = json.loads(one.removeprefix("---"))
    return document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"]


def plans_of(texts: list[str], hosts: dict, chosen: dict | None) -> list[dict]:
    """Return the plans of two sets of manifests, and of the first one again; [] where one of them is refused."""
    snapshot, plans = None, []
    for text in (*texts, texts[0]):
        if read_manifests([("t.yml", text)])[1]:
            return []
        snapshot, problems = decide(text, snapshot, hosts, chosen)
        if problems:
            return []
        plans.append(build_plan(snapshot))
    return plans


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    st.lists((NAMESPACED | CLUSTER).filter(valid), min_size=2, max_size=4, unique_by=name_of),
    st.sampled_from(HOSTS),
    st.sampled_from([EVERYWHERE, None, {**EVERYWHERE, "layer2_topology": "gateway-router"}]),
    st.lists(WORKLOADS.filter(valid), max_size=3, unique=True),
    st.lists(
        (
            SERVICES | POLICIES | MULTI_POLICIES | ADMIN_POLICIES | EGRESS_IPS | EGRESS_SERVICES | EGRESS_RULES
        ).filter(valid),
        max_size=4,
        unique=True,
    ),
)  # fmt: skip
def check_sets(networks, hosts, chosen, workloads, objects):
    # What is refused as a whole is tried without what may not go with these networks.
    for rest in ([*workloads, *objects], objects, []):
        plans = plans_of([SURROUNDINGS + "".join([*some, *rest]) for some in (networks[:-1], networks)], hosts, chosen)
        if plans:
            break
    for former, plan in pairwise(plans):
        differs = former["networks"].keys() != plan["networks"].keys()
        for node in plan["nodes"]:
            for one, other in ((former, plan), (host_plan(former, node), host_plan(plan, node))):
                found = check(one, other, node)
                SEEN[differs, found is not None] += 1


def test_a_network_comes_and_goes():
    SEEN.clear()
    check_sets()
    # Else nothing of them was checked.
    assert SEEN[True, True] > 20


def tenants(*numbers: int, more: str = "") -> str:
    return TENANTS + more + "".join(
        layer2(f"n{number}", "net", f"10.{number}.0.0/24") + workload(f"n{number}", "w", "node1")
        if number % 2
        else layer3(f"n{number}", "net", f"10.{number}.0.0/16", 24) + workload(f"n{number}", "w", "node2")
        for number in numbers
    )  # fmt: skip


@pytest.mark.parametrize("number", [3, 4])
def test_a_network_with_a_workload_and_its_reversal(number):
    hosts = with_gateways("shared")
    before = stored(tenants(1, 2), hosts=hosts, settings=EVERYWHERE)
    grown = stored(tenants(1, 2, number), before, hosts=hosts, settings=EVERYWHERE)
    plans = [build_plan(one) for one in (before, grown)]
    for former, plan in (plans, plans[::-1]):
        for node in plan["nodes"]:
            # The workload has an interface on the default network, too; hosts without it need not know it.
            assert check(former, plan, node) == {f"n{number}_net", "default"}


def test_common_rows_depend_on_the_number_of_networks():
    """The limit of ARP grows with each network up to ten, later with every sixth: all rows are compared then."""
    hosts, differing = with_gateways("shared"), []
    plans = [plan_of(tenants(*range(count)), hosts=hosts, settings=EVERYWHERE) for count in (8, 9, 10)]
    for former, plan in pairwise(plans):
        sets = [common(render_northbound(one, "node1", frozenset())) for one in (former, plan)]
        differing.append(sets[0] != sets[1])
    assert differing == [True, False]


@pytest.mark.parametrize("change", ["another subnet", "another id", "egress_firewalls", "settings", "nodes"])
def test_what_may_concern_other_networks(change):
    plan = plan_of(tenants(1, 2), hosts=with_gateways("shared"), settings=EVERYWHERE)
    network = plan["networks"]["n1_net"]
    former = {**plan, "networks": {name: one for name, one in plan["networks"].items() if name != "n2_net"}}
    assert changed_networks(former, plan, "node1") == {"n2_net"}
    if change.startswith("another"):
        key, value = ("subnets", ["10.99.0.0/24"]) if change == "another subnet" else ("id", 999)
        former["networks"]["n1_net"] = {**network, key: value}
    elif change == "egress_firewalls":
        former["egress_firewalls"] = {"n1_net": [{"namespace": "n1", "workloads": [], "rules": []}]}
    else:
        former[change] = {**plan[change], "more": {}}
    assert changed_networks(former, plan, "node1") is None
