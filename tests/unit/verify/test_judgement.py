# SPDX-License-Identifier: Apache-2.0
"""What was seen against what was expected, and how it reads."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.filter.reachability_report import reachability_report
from ansible_collections.heddle.ovn.plugins.module_utils.document import pack
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectation import expected
from ansible_collections.heddle.ovn.plugins.module_utils.verify.judgement import judge
from ansible_collections.heddle.ovn.plugins.module_utils.verify.tables import reachability_table
from tests.pipeline import layer2, namespace, nodes, plan_of, workload

PLAN = plan_of(
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24")
    + workload("red", "r1", "node1")
    + workload("red", "r2", "node2")
    + namespace("blue")
    + layer2("blue", "net", "10.0.0.0/24")
    + workload("blue", "b1", "node1"),
    hosts=nodes("node1", "node2"),
)


def perfect(plan: dict = PLAN) -> dict[str, dict]:
    """What hosts report when everything is as it must be."""
    return {
        node: {
            "seen": [
                {
                    "source": pair.source,
                    "target": pair.target,
                    "network": pair.network,
                    "family": pair.family,
                    "address": pair.address,
                    "answered_by": pair.target if pair.reach else None,
                    "answered_on": pair.network if pair.reach else None,
                    "milliseconds": 1.5 if pair.reach else None,
                    "large": pair.reach,
                }
                for pair in expected(plan, node)
            ],
            "heard": [
                [pair.source, pair.target, pair.network, pair.address]
                for pair in expected(plan)
                if pair.reach and plan["workloads"][pair.target]["node"] == node
            ],
            "digest": plan["digest"],
            "problems": [],
        }
        for node in plan["nodes"]
    }


def seen_by(hosts: dict, source: str, target: str, network: str) -> dict:
    return next(
        one
        for host in hosts.values()
        for one in host["seen"]
        if (one["source"], one["target"], one["network"]) == (source, target, network)
    )


def test_all_as_it_must_be() -> None:
    report = judge(PLAN, perfect())
    assert report["passed"]
    assert report["counts"] == {"pairs": 18, "failed": 0, "not tested": 0, "reached": 2, "isolated": 16}
    assert report["matrix"] == {"blue/b1": "-..", "red/r1": ".-+", "red/r2": ".+-"}


def test_the_table_of_a_run_with_every_kind_of_mistake() -> None:
    hosts = perfect()
    seen_by(hosts, "red/r1", "red/r2", "red_net")["answered_by"] = None
    seen_by(hosts, "red/r2", "red/r1", "red_net")["answered_by"] = "blue/b1"
    seen_by(hosts, "blue/b1", "red/r1", "red_net").update(answered_by="red/r1", answered_on="red_net")
    hosts["node2"]["heard"].append(["blue/b1", "red/r2", "red_net", "10.0.0.4"])
    hosts["node1"]["problems"] = ["red/r1: 10.0.0.3 port 7654: Address already in use"]
    assert (
        "\n".join(reachability_table(judge(PLAN, hosts)))
        == f"""\
Addresses, by their network (plan {PLAN["digest"]})
  network   family  must reach  reached  must not  isolated  not tested
  default   IPv4             0        0         6         6           0
  default   IPv6             0        0         6         6           0
  blue_net  IPv4             0        0         2         2           0
  red_net   IPv4             2        0         2         0           0

Workloads (row: source, column: target; + reaches, . isolated, both as they must; ! wrong, ? not tested)
            1 2 3
  1 blue/b1 - ! !
  2 red/r1  . - !
  3 red/r2  . ! -

Failed (4)
  blue/b1 -> red/r1 10.0.0.3 (network red_net, IPv4): answered but must not: blue/b1 is not attached to red_net
  blue/b1 -> red/r2 10.0.0.4 (network red_net, IPv4): got the packet, though no answer came back, but must not: \
blue/b1 is not attached to red_net
  red/r1 -> red/r2 10.0.0.4 (network red_net, IPv4): the packet arrived, its answer did not
  red/r2 -> red/r1 10.0.0.3 (network red_net, IPv4): answered by blue/b1 on red_net

Problems (1)
  node1: red/r1: 10.0.0.3 port 7654: Address already in use

Left out (1)
  no host has a way out

FAILED: 18 addresses, 0 reached, 14 isolated; 0 ways in and out; 4 failed, 0 not tested; slowest answer 1.5 ms"""
    )


def test_a_host_that_did_not_answer_leaves_its_workloads_untested() -> None:
    hosts = perfect()
    del hosts["node2"]
    report = judge(PLAN, hosts)
    assert not report["passed"]
    assert report["failures"] == []
    assert report["matrix"] == {"blue/b1": "-.?", "red/r1": ".-?", "red/r2": "??-"}
    assert report["not_tested"] == [
        "blue/b1: 3 addresses not tested, node2 did not answer",
        "red/r1: 3 addresses not tested, node2 did not answer",
        "red/r2: 6 addresses not tested, node2 did not answer",
    ]
    assert report["problems"] == ["node2: did not answer"]


def test_hosts_with_different_plans_are_a_problem() -> None:
    hosts = perfect()
    hosts["node2"]["digest"] = "other"
    report = judge(PLAN, hosts)
    told = f"node1 {PLAN['digest']}, node2 other"
    assert report["problems"] == [f"hosts have different plans ({told}); run playbooks/networks.yml"]
    assert not report["passed"]


def results(host: dict) -> dict:
    """The module's three results on a host, as Ansible registers them."""
    return {
        "responding": {"changed": True, "problems": host["problems"]},
        "probed": {"seen": host["seen"], "problems": [], "digest": host["digest"], "document": pack(PLAN)},
        "stopped": {"changed": True, "heard": host["heard"]},
    }


def test_the_filter_takes_what_the_module_returned() -> None:
    judged = reachability_report({name: results(host) for name, host in perfect().items()})
    assert judged["report"]["passed"]
    assert judged["plan"] == PLAN
    assert [leg["node"] for leg in judged["packets"]] == ["node1", "node2"]


def test_a_module_that_failed_is_a_problem_of_its_host() -> None:
    all_results = {name: results(host) for name, host in perfect().items()}
    all_results["node1"]["probed"] = {"failed": False, "msg": "no plan in /var/lib/heddle/plan.json"}
    report = reachability_report(all_results)["report"]
    assert report["problems"] == ["node1: no plan in /var/lib/heddle/plan.json"]
    assert not report["passed"]


def test_nobody_answered() -> None:
    report = reachability_report({})["report"]
    assert not report["passed"]
    assert report["pairs"] == []
