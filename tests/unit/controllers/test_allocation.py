# SPDX-License-Identifier: Apache-2.0
"""Allocation: values that are kept, the next value, and delayed reuse."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.allocation.transit import first_clear
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import decide, layer2, layer3, namespace, nodes, plan_of, stored, workload


def tenants(*names):
    return "".join(namespace(name) + layer2(name, "net", "10.0.0.0/24") for name in names)


def test_node_ids_start_at_two_and_network_ids_at_one():
    plan = plan_of(tenants("red"))
    assert [node["id"] for node in plan["nodes"].values()] == [2, 3, 4]
    assert {name: network["id"] for name, network in plan["networks"].items()} == {"default": 0, "red_net": 1}


def test_tunnel_keys_come_from_the_legacy_and_the_dynamic_block():
    plan = plan_of(tenants("red") + namespace("l3") + layer3("l3", "net", "10.9.0.0/16", 24))
    assert plan["networks"]["default"]["tunnel_keys"] == [16711683]
    assert plan["networks"]["l3_net"]["tunnel_keys"] == [16711684]
    assert plan["networks"]["red_net"]["tunnel_keys"] == [16711685, 16715779]


def test_the_same_manifests_again_change_nothing():
    text = tenants("red", "blue") + workload("red", "w1", "node1") + workload("blue", "w1", "node2")
    first, _problems = decide(text)
    second, _problems = decide(text, first)
    assert second == first


def test_owners_keep_their_values_when_others_change():
    text = tenants("b", "d") + workload("b", "w2", "node1") + workload("d", "w2", "node1")
    before, _problems = decide(text)
    after, _problems = decide(tenants("a", "b") + workload("b", "w1", "node1") + workload("b", "w2", "node1"), before)
    assert after.get("network-id", "b_net") == before.get("network-id", "b_net")
    assert after.get("address/b_net/10.0.0.0/24", "b/w2") == before.get("address/b_net/10.0.0.0/24", "b/w2")
    assert "d_net" not in after.allocations["network-id"]


def test_freed_network_id_is_not_reused_at_once():
    before, _problems = decide(tenants("red"))
    between, _problems = decide(namespace("none", primary=False), before)
    after, _problems = decide(tenants("red"), between)
    assert (before.get("network-id", "red_net"), after.get("network-id", "red_net")) == ("1", "2")


def test_removal_of_everything_leaves_only_node_allocations():
    before, _problems = decide("")
    between, _problems = decide(tenants("red") + workload("red", "w", "node1"), before)
    after, _problems = decide("", between)
    assert after.allocations == {**before.allocations}
    assert after.objects == before.objects


def test_a_workload_that_moves_gets_an_address_of_its_new_node():
    base = namespace("l3") + layer3("l3", "net", "10.9.0.0/16", 24)
    before, _problems = decide(base + workload("l3", "w", "node1"))
    after, _problems = decide(base + workload("l3", "w", "node3"), before)
    held = {pool: owners for pool, owners in after.allocations.items() if pool.startswith("address/l3_net/")}
    assert held == {"address/l3_net/10.9.2.0/24": {"l3/w": "10.9.2.3"}}


def test_node_without_a_report_keeps_its_last_one():
    before, _problems = decide("")
    after, _problems = decide("", before, {name: {} for name in nodes("node1", "node2", "node3")})
    assert after.objects["Node/node2"].spec["chassis"] == "chassis-of-node2"


def test_transit_subnet_skips_overlapping_ranges():
    chosen = plan_of(namespace("red") + layer2("red", "net", "100.88.0.0/17", "fd01::/64"))["networks"]["red_net"]
    assert chosen["transit_subnets"] == ["100.89.0.0/16", "fd97::/64"]
    assert first_clear("100.88.0.0/16", ["100.80.0.0/12"]) == "100.96.0.0/16"


def overlapping_chain(count):
    """Subnets of which each lies where the search goes on behind the one before."""
    return [f"100.{88 + number}.0.0/16" for number in range(count)]


def test_transit_subnet_search_has_ten_attempts():
    assert first_clear("100.88.0.0/16", overlapping_chain(10)) == "100.98.0.0/16"
    with pytest.raises(ValueError, match="within 10 attempts"):
        first_clear("100.88.0.0/16", overlapping_chain(11))


@pytest.mark.parametrize(
    ("candidate", "others", "chosen"),
    [
        ("100.88.0.0/16", [], "100.88.0.0/16"),
        ("100.88.0.0/16", ["100.88.255.0/24"], "100.89.0.0/16"),
        ("100.88.0.0/16", ["100.64.0.0/10"], "100.128.0.0/16"),
        ("fd97::/64", ["fd97::/16", "fd98::/64"], "fd98:0:0:1::/64"),
    ],
)
def test_transit_subnet_search_continues_after_the_larger_range(candidate, others, chosen):
    assert first_clear(candidate, others) == chosen


def test_transit_subnet_search_ends_at_the_address_space():
    with pytest.raises(ValueError, match="no transit subnet beside"):
        first_clear("255.255.0.0/16", ["255.0.0.0/8"])


def test_transit_subnet_is_kept_without_overlap():
    text = namespace("red") + layer2("red", "net", "100.88.0.0/17")
    # Where there are hosts, the settings stay.
    before, _problems = decide(text, hosts={})
    assert before.allocations["transit-subnet/red_net"] == {"v4": "100.89.0.0/16"}
    for settings, chosen in (
        ({"transit_subnets": ["100.90.0.0/16", "fd97::/64"]}, "100.89.0.0/16"),
        ({"transit_subnets": ["100.90.0.0/17", "fd97::/64"]}, "100.90.0.0/17"),
        ({"service_subnets": ["100.89.7.0/24", "fd00:10:96::/112"]}, "100.90.0.0/16"),
    ):
        after, problems = decide(text, before, hosts={}, settings=settings)
        assert not problems
        assert after.allocations["transit-subnet/red_net"] == {"v4": chosen}


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("network-id", 1, 4095),
        ("node-id", 2, 4999),
        ("tunnel-key", 16715779, 16777215),
    ],
)
def test_numbers_wrap_at_the_end_of_their_range(name, first, last):
    text = tenants("red", "blue")
    before, _problems = decide("")
    before.cursors = {"network-id": 4095, "node-id": 4999, "tunnel-key": 16777215}
    before.allocations["node-id"] = {}
    after, _problems = decide(text, before)
    given = sorted(map(int, after.allocations[name].values()))
    assert given[-1] == last
    assert given[:-1] == list(range(first, first + len(given) - 1))


def test_a_running_workload_keeps_its_mac_when_its_network_gets_ipv4():
    """The MAC follows from the first address, and IPv4 addresses come first."""

    def macs(snapshot) -> dict[str, str]:
        return {name: one["interfaces"][-1]["mac"] for name, one in build_plan(snapshot)["workloads"].items()}

    only_ipv6 = namespace("l3") + layer3("l3", "net", "fd00:9::/48", 64)
    both = only_ipv6.replace("subnets: [", "subnets: [{cidr: 10.9.0.0/16, hostSubnet: 24}, ")
    first = stored(only_ipv6 + workload("l3", "old", "node1"))
    assert "mac/l3_net" not in first.allocations
    text = both + workload("l3", "old", "node1") + workload("l3", "new", "node1")
    second = stored(text, first)
    assert macs(second) == {**macs(first), "l3/new": "0a:58:0a:09:00:03"}
    assert build_plan(second)["workloads"]["l3/old"]["interfaces"][-1]["addresses"][0] == "10.9.0.4/24"
    again = stored(text, second)
    assert (again.objects, again.allocations) == (second.objects, second.allocations)
    # A later one of this name is a new workload.
    third = stored(both + workload("l3", "new", "node1"), second)
    assert "mac/l3_net" not in third.allocations
    assert macs(stored(text, third))["l3/old"] == "0a:58:0a:09:00:04"
    # Nothing changes where the network has had both families.
    assert macs(stored(text, stored(both + workload("l3", "old", "node1"))))["l3/old"] == "0a:58:0a:09:00:03"
