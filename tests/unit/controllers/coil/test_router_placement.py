# SPDX-License-Identifier: Apache-2.0
"""Where routers of an Egress run: balanced, sticky, apart."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.coil.router_placement import place

HOSTS = {name: {"rack": rack} for name, rack in (("a", "1"), ("b", "1"), ("c", "2"))}
RACK = ["rack"]


def placed(count, hosts=HOSTS, running=None, **more):
    return place("nat", count, hosts, running or {}, **{"load": {}, **more})


def test_routers_are_spread():
    assert placed(4) == {"nat-0": "a", "nat-1": "b", "nat-2": "c", "nat-3": "a"}


def test_hosts_with_other_routers_come_last():
    assert placed(2, load={"a": 2, "b": 1}) == {"nat-0": "c", "nat-1": "b"}


def test_router_stays_while_its_host_may_be_chosen():
    running = {"nat-0": "c", "nat-1": "c"}
    assert placed(2, running=running) == running
    assert placed(2, {"a": {}, "b": {}}, running) == {"nat-0": "a", "nat-1": "b"}


def test_fewer_routers_leave_the_fullest_host():
    assert placed(2, running={"nat-0": "a", "nat-1": "b", "nat-2": "b"}) == {"nat-0": "a", "nat-1": "b"}
    assert placed(1, running={"nat-0": "a", "nat-1": "b"}) == {"nat-0": "a"}


def test_routers_are_kept_apart():
    assert placed(3, apart=RACK) == {"nat-0": "a", "nat-1": "c"}
    # One that violates it since its host has another label goes elsewhere.
    assert placed(2, running={"nat-0": "a", "nat-1": "b"}, apart=RACK) == {"nat-0": "a", "nat-1": "c"}
    assert placed(2, {"a": {}, "b": {}}, apart=RACK) == {"nat-0": "a", "nat-1": "b"}


def test_names_of_other_workloads_are_left_out():
    assert placed(2, taken=["nat-0"]) == {"nat-1": "a", "nat-2": "b"}


def test_without_hosts_there_are_no_routers():
    assert placed(2, {}) == {}


def test_a_budget_limits_how_many_leave_at_a_time():
    running = {"nat-0": "a", "nat-1": "a", "nat-2": "a"}
    rest = {"b": {}, "c": {}}
    first = placed(3, rest, running, leaving="abc", may_leave=1)
    assert first == {"nat-0": "b", "nat-1": "a", "nat-2": "a"}
    second = placed(3, rest, first, leaving="abc", may_leave=1)
    assert second == {"nat-0": "b", "nat-1": "c", "nat-2": "a"}
    assert placed(3, rest, running, leaving="abc", may_leave=0) == running
    # Fewer replicas: those that have to leave go first. A host that is gone has none.
    assert placed(1, rest, second, leaving="abc", may_leave=0) == {"nat-0": "b"}
    assert placed(3, rest, running, leaving="bc", may_leave=0) == {"nat-0": "b", "nat-1": "c", "nat-2": "b"}


counts, names = st.integers(1, 8), st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1)


@given(st.lists(st.tuples(counts, names), min_size=1, max_size=6))
def test_any_sequence_is_sticky_and_complete(changes):
    """A router moves only when its host is gone, and what is made new never makes the spread worse."""
    running = {}
    for count, hosts in changes:
        before, running = running, placed(count, {host: {} for host in hosts}, running)
        assert len(running) == count
        assert placed(count, {host: {} for host in hosts}, running) == running
        kept = {name: host for name, host in before.items() if host in hosts}
        assert all(running[name] == kept[name] for name in set(running) & set(kept))
        assert len(set(running) & set(kept)) == min(count, len(kept))
        old, now = (Counter(dict.fromkeys(hosts, 0) | Counter(one.values())) for one in (kept, running))
        spread = max(old.values()) - min(old.values()) if old else 0
        assert max(now.values()) - min(now.values()) <= max(1, spread)
