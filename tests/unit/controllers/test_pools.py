# SPDX-License-Identifier: Apache-2.0
"""The allocation rule of all pools, and the messages on exhaustion."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.allocation.allocation import allocate
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.allocation.pools import (
    Pool,
    allocate_pool,
    local_mac,
    numbers,
)
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.network.networks import attached_networks
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from tests.pipeline import decide, layer2, layer3, namespace, workload

MODULE = "ansible_collections.heddle.ovn.plugins.module_utils.controllers.allocation.tunnel_keys"
OWNERS = st.sets(st.sampled_from("abcdefgh"))


def pool(owners, first=1, last=5, start=None, **more):
    return Pool("p", "numbers", "take less", numbers(first, last, start), dict.fromkeys(owners, "Key"), **more)


@given(steps=st.lists(OWNERS, max_size=8))
def test_values_are_unique_and_stay_with_their_owners(steps):
    snapshot = Snapshot()
    for owners in steps:
        before = dict(snapshot.allocations.get("p", {}))
        failures = allocate_pool(snapshot, pool(owners))
        held = snapshot.allocations["p"]
        assert len(set(held.values())) == len(held)
        assert set(held) <= owners
        assert {owner: value for owner, value in before.items() if owner in owners}.items() <= held.items()
        assert len(held) == min(len(owners), 5)
        assert bool(failures) == (len(owners) > 5)


@given(steps=st.lists(OWNERS, max_size=12))
def test_freed_value_is_reused_last(steps):
    snapshot, known = Snapshot(), set()
    for owners in steps:
        before = set(snapshot.allocations.get("p", {}))
        allocate_pool(snapshot, pool(owners, 1, 12, snapshot.cursors.get("p", 1), round_robin=True))
        for owner in sorted(set(snapshot.allocations["p"]) - before):
            value = snapshot.allocations["p"][owner]
            assert value not in known or len(known) == 12
            known.add(value)


@given(held=OWNERS, owners=OWNERS, asked=st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("12345")))
def test_a_pool_with_the_right_values_stays_as_it_is(held, owners, asked):
    """The short way through an unchanged pool has the result of the long one, which a value to free enforces."""
    asked = {owner: value for owner, value in asked.items() if owner in owners}
    short = Snapshot(allocations={"p": {owner: str(place) for place, owner in enumerate(sorted(held), 1)}})
    long = Snapshot(allocations={"p": {**short.allocations["p"], "gone": "0"}})
    before = short.allocations["p"]
    failures = allocate_pool(short, pool(owners, asked=asked))
    assert failures == allocate_pool(long, pool(owners, asked=asked))
    assert short.allocations["p"] == long.allocations["p"]
    if before and short.allocations["p"] == before and not failures:
        assert short.allocations["p"] is before


def test_search_continues_where_it_ended_and_wraps():
    snapshot = Snapshot(cursors={"p": 4})
    allocate_pool(snapshot, pool("abc", start=4, round_robin=True))
    assert snapshot.allocations["p"] == {"a": "4", "b": "5", "c": "1"}
    assert snapshot.cursors["p"] == 2


def test_requested_values_are_allocated_first():
    snapshot = Snapshot()
    assert allocate_pool(snapshot, pool("abc", asked={"c": "1"})) == []
    assert snapshot.allocations["p"] == {"a": "2", "b": "3", "c": "1"}


def test_request_for_a_used_value_is_refused_with_its_owner():
    snapshot = Snapshot(allocations={"p": {"a": "1"}})
    assert allocate_pool(snapshot, pool("ab", asked={"b": "1"})) == [("Key", "1 is held by a", "choose another one")]
    assert snapshot.allocations["p"] == {"a": "1"}


def test_request_for_another_value_frees_the_old_one():
    snapshot = Snapshot(allocations={"p": {"a": "1"}})
    allocate_pool(snapshot, pool("ab", asked={"a": "5"}))
    assert snapshot.allocations["p"] == {"a": "5", "b": "1"}


def test_exhaustion_message_has_demand_capacity_and_owners():
    gone = {f"gone/{number}": str(number) for number in range(1, 3)}
    snapshot = Snapshot(allocations={"p": gone})
    failures = allocate_pool(snapshot, pool("abcd", is_kept=lambda owner: owner.startswith("gone/")))
    reported = (
        "numbers: 4 are wanted, all 5 are taken, 2 of them kept for what is gone (lifecycle Persistent): gone/1, gone/2"
    )
    remedy = "release what does not come back, as in -e heddle_released=gone/1, or take less"
    assert failures == [("Key", reported, remedy)]


@pytest.mark.parametrize(
    ("constant", "values", "fragment"),
    [
        ("NODE_IDS", (2, 3), "node ids 2 to 3: 3 are wanted, all 2 are taken"),
        ("NETWORK_IDS", (1, 2), "network ids 1 to 2: 3 are wanted, all 2 are taken"),
        ("DYNAMIC_TUNNEL_KEYS", (7, 7), "tunnel keys of transit routers 7 to 7: 2 are wanted, all 1 are taken"),
        ("PORT_TUNNEL_IDS_BESIDE_ROUTER", (10, 11), "port tunnel ids 10 to 11 of a_net: 3 are wanted, all 2 are taken"),
    ],
)
def test_every_pool_reports_exhaustion(monkeypatch, constant, values, fragment):
    text = (
        namespace("a") + layer2("a", "net", "10.0.0.0/24")
        + layer2("a", "x", "10.1.0.0/24").replace("Primary", "Secondary")
        + layer2("a", "y", "10.2.0.0/24").replace("Primary", "Secondary")
        + namespace("b") + layer2("b", "net", "10.0.0.0/24")
        + "".join(workload("a", f"w{number}", "node1") for number in (1, 2, 3))
    )  # fmt: skip
    if constant == "NETWORK_IDS":
        text = text.replace("---\n" + layer2("a", "y", "10.2.0.0/24").replace("Primary", "Secondary").lstrip("-\n"), "")
    snapshot, problems = decide(text)
    assert not problems
    monkeypatch.setattr(f"{MODULE}.{constant}", values)
    snapshot.allocations, snapshot.cursors = {}, {}
    failures = allocate(snapshot, attached_networks(snapshot))
    assert [rule for _key, rule, _remedy in failures if fragment in rule], failures
    assert all(remedy for _key, _rule, remedy in failures)


@pytest.mark.parametrize(
    ("text", "key", "fragment"),
    [
        (
            namespace("a") + layer2("a", "net", "10.0.0.0/29")
            + "".join(workload("a", f"w{number}", "node1") for number in range(5)),
            "Workload/a/w4",
            "addresses in 10.0.0.0/29 of a_net: 5 are wanted, all 4 are taken; remove workloads",
        ),
        (
            namespace("a") + layer3("a", "net", "10.9.0.0/23", 24),
            "UserDefinedNetwork/a/net",
            "host subnets in 10.9.0.0/23: 3 are wanted, all 2 are taken; add a subnet",
        ),
    ],
)  # fmt: skip
def test_exhaustion_is_reported_in_the_status(text, key, fragment):
    after, problems = decide(text)
    assert not problems
    reported = [condition["message"] for condition in after.objects[key].status["conditions"]]
    assert any(fragment in message for message in reported), reported


def test_a_local_mac_is_unicast_local_stable_and_free():
    taken = set()
    for name in map(str, range(200)):
        mac = local_mac(("deployment", "network", name), taken)
        assert mac not in taken
        assert mac == local_mac(("deployment", "network", name), taken)
        assert int(mac[:2], 16) & 0x03 == 0x02
        assert local_mac(("deployment", "network", name), {mac}) != mac
        taken.add(mac)


@pytest.mark.parametrize("start", [None, 1, 3, 5, 6, 0])
def test_all_candidates_are_seen_once(start):
    assert sorted(itertools.islice(numbers(1, 5, start)(set()), 99)) == ["1", "2", "3", "4", "5"]
