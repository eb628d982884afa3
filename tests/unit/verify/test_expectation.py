# SPDX-License-Identifier: Apache-2.0
"""Expected reachability between workloads."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import Pair, expected
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from tests.pipeline import layer2, layer3, namespace, plan_of, workload

# Two tenants with one subnet, a routed one, and one without a network of its own.
MANIFESTS = (
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + workload("red", "r1", "node1")
    + workload("red", "r2", "node2")
    + namespace("blue")
    + layer2("blue", "net", "10.0.0.0/24")
    + workload("blue", "b1", "node1")
    + workload("blue", "b2", "node3")
    + namespace("routed")
    + layer3("routed", "net", "10.128.0.0/16", 24)
    + workload("routed", "c1", "node1")
    + workload("routed", "c2", "node2")
    + namespace("plain", primary=False)
    + workload("plain", "p1", "node1")
    + workload("plain", "p2", "node2")
)


EVERY_PAIR = Selection(ALL)


def pairs() -> list[Pair]:
    return expected(plan_of(MANIFESTS), None, EVERY_PAIR)


def test_exactly_the_members_of_a_network_reach_each_other() -> None:
    reach = {(pair.source, pair.target, pair.network, pair.family) for pair in pairs() if pair.reach}
    wanted = set()
    for one, other, network, families in (
        ("red/r1", "red/r2", "red_net", (4, 6)),
        ("blue/b1", "blue/b2", "blue_net", (4,)),
        ("routed/c1", "routed/c2", "routed_net", (4,)),
        ("plain/p1", "plain/p2", "default", (4, 6)),
    ):
        for number in families:
            wanted |= {(one, other, network, number), (other, one, network, number)}
    assert reach == wanted


def test_every_address_of_every_other_workload_is_tested() -> None:
    plan = plan_of(MANIFESTS)
    asked = {(pair.source, pair.target, pair.address) for pair in pairs()}
    for source in plan["workloads"]:
        for target, described in plan["workloads"].items():
            for interface in described["interfaces"]:
                for address in interface["addresses"]:
                    assert ((source, target, address.partition("/")[0]) in asked) == (source != target)


def test_networks_with_equal_subnets_do_not_reach_each_other_at_equal_addresses() -> None:
    plan = plan_of(MANIFESTS)
    address = {
        name: next(one["addresses"][0] for one in plan["workloads"][name]["interfaces"] if one["role"] == "primary")
        for name in ("red/r2", "blue/b2")
    }
    assert address["red/r2"] == address["blue/b2"]
    pair = next(
        one for one in pairs() if one.source == "blue/b1" and one.target == "red/r2" and one.network == "red_net"
    )
    assert not pair.reach
    assert pair.reason == "blue/b1 is not attached to red_net"


def test_the_default_network_is_locked_from_and_to_workloads_with_another_primary_network() -> None:
    default = {(pair.source, pair.target): pair for pair in pairs() if pair.network == "default" and pair.family == 4}
    assert not default["plain/p1", "red/r1"].reach
    assert default["plain/p1", "red/r1"].reason.startswith("default is locked for red/r1")
    assert default["red/r1", "plain/p1"].reason.startswith("default is locked for red/r1")
    assert not default["red/r1", "red/r2"].reach


def test_host_sends_for_its_own_workloads_only() -> None:
    plan = plan_of(MANIFESTS)
    assert {pair.source for pair in expected(plan, "node3")} == {"blue/b2"}
    assert sorted(map(str, expected(plan))) == sorted(
        str(pair) for node in plan["nodes"] for pair in expected(plan, node)
    )


def test_empty_plan_has_no_questions() -> None:
    assert expected(plan_of("")) == []


def test_virtual_machines_are_not_tested() -> None:
    machine = workload("red", "vm", "node1, kind: vm")
    alone = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "a", "node1")
    assert expected(plan_of(alone + machine)) == []
    pairs = expected(plan_of(alone + machine + workload("red", "b", "node2")))
    assert {(pair.source, pair.target) for pair in pairs} == {("red/a", "red/b"), ("red/b", "red/a")}
