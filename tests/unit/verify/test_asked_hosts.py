# SPDX-License-Identifier: Apache-2.0
"""Questions between the hosts of a network: all pairs on few hosts, a bounded number for each host on many."""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import LOCKED_ROLE
from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations import selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.asked_hosts import MOST_OTHERS, AskedHosts
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.coverage import coverage
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import expected
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.fleet import FleetExpectations
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.others import Others
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Groups, Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import Expectations
from ansible_collections.heddle.ovn.plugins.module_utils.verify.report_tables import reachability_table
from tests.pipeline import layer2, namespace, nodes, plan_of, workload

FEW = MOST_OTHERS + 1
LARGE = 500
EXTERNAL = {"external": ["192.0.2.200"]}


def names_of(count: int) -> list[str]:
    return [f"node{number}" for number in range(count)]


def fleet_of(count: int) -> dict:
    """Return what `Groups` reads of a plan: on each host a workload of the default network and one of another."""
    workloads = {}
    for number, host in enumerate(names_of(count)):
        default = [{"network": "default", "role": "primary"}]
        apart = [{"network": f"net{number // 5}", "role": "primary"}, {"network": "default", "role": LOCKED_ROLE}]
        workloads[f"plain/w{number}"] = {"node": host, "interfaces": default}
        workloads[f"apart/w{number}"] = {"node": host, "interfaces": apart}
    return {"digest": "0123456789abcdef", "workloads": workloads}


def plan_with_hosts(count: int) -> dict:
    """Return a plan of one dual-stack network with a workload on each host."""
    text = namespace("red") + layer2("red", "net", "10.0.0.0/16", "fd00:1::/64")
    text += "".join(workload("red", f"w{number}", host) for number, host in enumerate(names_of(count)))
    return plan_of(text, hosts=nodes(*names_of(count)))


def host_pairs(groups: Groups, node: str | None = None) -> list[tuple[str, str]]:
    """Return sending and receiving host of the questions that stand for pairs of hosts on the default network."""
    found = {key for one in groups.chosen(node) for key in one.classes if key[:2] == ("network", "default")}
    return [(here, there) for _sort, _network, here, _mine, there, _other in found]


@pytest.mark.parametrize("count", [1, 2, 3, FEW - 1, FEW])
def test_each_of_few_hosts_asks_all(count):
    asked = AskedHosts(names_of(count), MOST_OTHERS, "seed")
    assert not asked.is_sample
    assert all(asked.of(name) == names_of(count) for name in names_of(count))


@pytest.mark.parametrize("count", [FEW + 1, FEW + 2, 2 * FEW, LARGE])
def test_each_of_many_hosts_asks_as_many_as_ask_it(count):
    names = names_of(count)
    asked = AskedHosts(names, MOST_OTHERS, "seed", "default")
    others = {name: set(asked.of(name)) - {name} for name in names}
    assert asked.is_sample
    assert all(name in asked.of(name) for name in names)
    assert {len(one) for one in others.values()} == {MOST_OTHERS}
    assert {*Counter(name for one in others.values() for name in one).values()} == {MOST_OTHERS}


def test_all_hosts_are_in_one_ring_that_is_asked_in_both_directions():
    names = names_of(LARGE)
    asked = AskedHosts(names, 2, "seed")
    ring = [names[0]]
    while len(ring) < LARGE:
        following, _previous = asked.of(ring[-1])[1:]
        assert ring[-1] in asked.of(following)
        ring.append(following)
    assert sorted(ring) == sorted(names)
    assert names[0] in asked.of(ring[-1])


def test_the_order_in_which_hosts_are_known_does_not_matter():
    names = names_of(100)
    one, other = AskedHosts(names, MOST_OTHERS, "seed"), AskedHosts(names[::-1], MOST_OTHERS, "seed")
    assert all(one.of(name) == other.of(name) for name in names)


def test_further_seeds_and_networks_cover_further_pairs():
    """Each seed has the length of a digest: they are alike in all but a few digits."""
    names, counts, covered = names_of(100), [], set()
    for seed in range(20):
        asked = AskedHosts(names, MOST_OTHERS, f"00000000000000{seed:02x}", "default")
        covered |= {(here, there) for here in names for there in asked.of(here) if here != there}
        counts.append(len(covered))
    assert counts[:8] == sorted(set(counts[:8]))
    # What independent choices of 40 of 99 leave of all pairs is 0.6**20 of them.
    assert counts[-1] > 0.99 * 100 * 99
    on = [AskedHosts(names, MOST_OTHERS, "seed", network) for network in ("default", "net0")]
    assert on[0].of("node0") != on[1].of("node0")


def test_questions_between_hosts_grow_with_the_hosts():
    for count in (FEW, 2 * FEW, LARGE):
        pairs = host_pairs(Groups(fleet_of(count), Selection()))
        # Each of two groups to each of both on another host; on its own host each has one member only.
        assert len(pairs) == count * (4 * MOST_OTHERS + 2)
        for end in zip(*pairs, strict=True):
            assert set(end) == set(names_of(count))


def test_hosts_of_a_large_fleet_agree():
    plan, chosen = fleet_of(LARGE), Selection(seed="seed")
    every = Groups(plan, chosen).chosen()
    for node in ("node0", "node77", f"node{LARGE - 1}"):
        own = [one for one in every if plan["workloads"][one.source]["node"] == node]
        assert Groups(plan, chosen).chosen(node) == own
        assert own


def test_a_host_looks_at_no_pairs_of_other_hosts(monkeypatch):
    """What it computes does not grow with the square of the hosts, but for one pass over all workloads."""
    numbers = Counter()
    plain = Selection.number
    monkeypatch.setattr(Selection, "number", lambda self, *key: numbers.update([key[0]]) or plain(self, *key))
    counts = []
    for count in (FEW, LARGE):
        numbers.clear()
        Groups(fleet_of(count), Selection()).chosen("node7")
        counts.append(numbers.copy())
    assert counts[0]["network"] == counts[1]["network"]
    # Of two networks to each other one: the group and its member.
    assert counts[1]["isolation"] <= 2 * (1 + 2 * selection.MOST_NETWORKS)
    assert counts[1]["ring"] <= 2 * LARGE + 5


def test_both_families_are_asked_in_both_directions(monkeypatch):
    monkeypatch.setattr(selection, "MOST_OTHERS", 2)
    plan = plan_with_hosts(9)
    node = {name: one["node"] for name, one in plan["workloads"].items()}
    asked = {(node[one.source], node[one.target], one.family) for one in expected(plan) if one.network == "red_net"}
    ring = Groups(plan, Selection()).asked_hosts("red_net")
    neighbours = {(here, there) for here in names_of(9) for there in ring.of(here) if here != there}
    assert len(neighbours) == 18
    assert asked >= {(*pair, family) for pair in neighbours for family in (4, 6)}
    assert neighbours == {(there, here) for here, there in neighbours}


def test_every_host_of_a_large_network_derives_the_questions_that_the_control_node_expects():
    plan = plan_with_hosts(FEW + 2)
    fleet = FleetExpectations.of(plan, EXTERNAL, Selection())
    together = Expectations.of_hosts(fleet)
    for name in ("node0", "node20", f"node{FEW + 1}", "external"):
        assert together[name] == Expectations.of(plan, name, EXTERNAL, Selection())


def report_of(plan: dict, chosen: Selection, silent: str = "") -> dict:
    """Return the coverage where everything was tested but what has a workload as source."""
    fleet = FleetExpectations.of(plan, {}, chosen)
    pairs = [
        {
            "source": one.source, "target": one.target, "network": one.network, "family": one.family,
            "result": "not tested" if one.source == silent else "reached",
        }
        for one in fleet.pairs
    ]  # fmt: skip
    return coverage(fleet, pairs, [])


def between_hosts(plan: dict, chosen: Selection, silent: str = "") -> int:
    """Return how many pairs of hosts are tested on the two networks that all workloads are attached to."""
    node = {name: one["node"] for name, one in plan["workloads"].items()}
    rows = (one for one in expected(plan, None, chosen) if one.source != silent)
    return len({(one.network, node[one.source], node[one.target]) for one in rows})


def test_report_has_the_number_of_pairs_of_hosts(monkeypatch):
    monkeypatch.setattr(selection, "MOST_OTHERS", 4)
    plan = plan_with_hosts(12)
    line = (
        "hosts: {} of 264 pairs of a sending and a receiving host were tested on default, red_net: with more than 5 "
        "hosts each sends to 4 others, another seed chooses other ones"
    )
    tested = between_hosts(plan, Selection())
    # The rings of workloads have further pairs of hosts.
    assert 2 * 12 * 4 < tested <= 2 * 12 * 5
    assert report_of(plan, Selection())["left_out"] == [line.format(tested)]
    less = between_hosts(plan, Selection(), silent="red/w3")
    assert less < tested
    assert report_of(plan, Selection(), silent="red/w3")["left_out"] == [line.format(less)]
    text = reachability_table(evaluate(plan, {}))
    assert f"  {line.format(0)}" in "\n".join(text).replace("\\\n", "")


def test_all_pairs_of_hosts_are_tested_where_all_pairs_are_wanted(monkeypatch):
    monkeypatch.setattr(selection, "MOST_OTHERS", 4)
    plan = plan_with_hosts(12)
    found = report_of(plan, Selection(ALL))
    assert between_hosts(plan, Selection(ALL)) == 2 * 12 * 11
    assert found["left_out"] == []
    # Each host with each other one, on two networks in two families.
    assert found["sorts"]["network"] == {"covered": 4 * 12 * 11, "of": 4 * 12 * 11}


def test_report_of_few_hosts_leaves_no_pair_out():
    plan = plan_with_hosts(FEW)
    assert between_hosts(plan, Selection()) == 2 * FEW * (FEW - 1)
    assert report_of(plan, Selection())["left_out"] == []


@pytest.mark.parametrize("without", ["a", "b", "c", "other"])
def test_others_are_a_list_without_one(without):
    members = ["a", "b", "c"]
    rest = [name for name in members if name != without]
    others = Others(members)
    assert others.count(without) == len(rest)
    assert [others.at(without, number) for number in range(7)] == [rest[number % len(rest)] for number in range(7)]
