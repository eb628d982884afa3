# SPDX-License-Identifier: Apache-2.0
"""Evaluation of answers against expectations, and the report."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack, unpack
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import HostPlans, host_plan
from ansible_collections.heddle.ovn.plugins.module_utils.verify import evaluation
from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate, unconfirmed
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import expected
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import Expectations, expand_again
from ansible_collections.heddle.ovn.plugins.module_utils.verify.report_tables import reachability_table
from ansible_collections.heddle.ovn.plugins.plugin_utils.reachability import reachability_report
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


EVERY_PAIR = Selection(ALL)


def key(pair) -> tuple:
    return pair.source, pair.target, pair.network, pair.address


def perfect(plan: dict = PLAN) -> dict[str, dict]:
    """What hosts report when all expectations are met."""
    digests = HostPlans(plan).digests
    return {
        node: {
            "seen": {
                key(pair): {
                    "answered_by": pair.target if pair.reach else None,
                    "answered_on": pair.network if pair.reach else None,
                    "asker": None,
                    "milliseconds": 1.5 if pair.reach else None,
                    "large": pair.reach,
                    "unsolicited": False,
                }
                for pair in expected(plan, node, EVERY_PAIR)
            },
            "slowest": 1.5,
            "received": [
                [*key(pair), 0.001]
                for pair in expected(plan, None, EVERY_PAIR)
                if pair.reach and plan["workloads"][pair.target]["node"] == node
            ],
            "digest": digests[node],
            "problems": [],
        }
        for node in plan["nodes"]
    }


def seen_by(hosts: dict, *ends: str) -> dict:
    """Return what was seen from a source of a target on a network."""
    return next(one for host in hosts.values() for at, one in host["seen"].items() if at[:3] == ends)


def evaluated(hosts: dict) -> dict:
    return evaluate(PLAN, hosts, None, EVERY_PAIR)


def asked_alone(
    tries: int = 5, waited: float = 1.0, slowest: float = 0.002, dead: float = 0, near: bool = True
) -> dict:
    return {"tries": tries, "waited": waited, "slowest": slowest, "dead": dead, "near": near}


def test_all_expectations_met() -> None:
    report = evaluated(perfect())
    assert report["passed"]
    assert report["counts"] == {"pairs": 18, "failed": 0, "not tested": 0, "reached": 2, "isolated": 16}
    assert report["matrix"] == {"blue/b1": "-..", "red/r1": ".-+", "red/r2": ".+-"}


def test_table_with_every_kind_of_failure() -> None:
    hosts = perfect()
    seen_by(hosts, "red/r1", "red/r2", "red_net")["answered_by"] = None
    seen_by(hosts, "red/r2", "red/r1", "red_net")["answered_by"] = "blue/b1"
    seen_by(hosts, "blue/b1", "red/r1", "red_net").update(answered_by="red/r1", answered_on="red_net")
    hosts["node2"]["received"].append(["blue/b1", "red/r2", "red_net", "10.0.0.4", 0.001])
    hosts["node1"]["problems"] = ["red/r1: 10.0.0.3 port 7654: Address already in use"]
    hosts["node2"]["received"] = [one for one in hosts["node2"]["received"] if one[0] != "red/r1"]
    hosts["node1"]["again"] = {("red/r1", "red/r2", "red_net", "10.0.0.4"): asked_alone()}
    assert (
        "\n".join(reachability_table(evaluated(hosts)))
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

Failed, by hosts (4)
  from   to     questions  what                  networks
  node1  node1          1  reaches but must not  red_net
  node1  node2          1  reaches but must not  red_net
  node1  node2          1  no answer             red_net
  node2  node1          1  answered by another   red_net

Failed (4)
  blue/b1 -> red/r1 10.0.0.3 (network red_net, IPv4): answered but must not: blue/b1 is not attached to red_net
  blue/b1 -> red/r2 10.0.0.4 (network red_net, IPv4): got the packet, though no answer came back, but must not: \
blue/b1 is not attached to red_net
  red/r1 -> red/r2 10.0.0.4 (network red_net, IPv4): no answer (asked alone 5 times)
  red/r2 -> red/r1 10.0.0.3 (network red_net, IPv4): answered by blue/b1 on red_net

Problems (1)
  node1: red/r1: 10.0.0.3 port 7654: Address already in use

Left out (2)
  blue_net: one workload only, which has no peer on its network
  no host has external connectivity

Covered (every pair)
  8 of 8: network x host pair x direction x family
  8 of 8: workload as target x network x family
  3 of 3: network x host against each other network x family

FAILED: 18 addresses, 0 reached, 14 isolated; 0 north-south flows; 4 failed, 0 not tested; slowest answer 1.5 ms"""
    )


@pytest.mark.parametrize(("on", "result"), [("red_net", "failed"), ("blue_net", "isolated")])
def test_the_answer_of_a_third_workload_is_a_leak_unless_its_network_is_the_sender_s(on, result) -> None:
    hosts = perfect()
    seen_by(hosts, "blue/b1", "red/r1", "red_net").update(answered_by="red/r9", answered_on=on)
    report = evaluated(hosts)
    (pair,) = [one for one in report["pairs"] if (one["source"], one["target"], one["network"]) == (
        "blue/b1", "red/r1", "red_net")]  # fmt: skip
    assert pair["result"] == result
    assert report["failures"] == ([] if result == "isolated" else [
        "blue/b1 -> red/r1 10.0.0.3 (network red_net, IPv4): red/r9 answered on red_net, which blue/b1 is not "
        "attached to"
    ])  # fmt: skip


def test_a_host_that_did_not_answer_leaves_its_workloads_untested() -> None:
    hosts = perfect()
    del hosts["node2"]
    report = evaluated(hosts)
    assert not report["passed"]
    assert report["failures"] == []
    assert report["matrix"] == {"blue/b1": "-.?", "red/r1": ".-?", "red/r2": "??-"}
    assert report["not_tested"] == [
        "blue/b1: 3 addresses not tested, node2 did not answer",
        "red/r1: 3 addresses not tested, node2 did not answer",
        "red/r2: 6 addresses not tested, node2 did not answer",
    ]
    assert report["problems"] == ["node2: did not answer"]


def test_a_report_of_many_workloads_has_no_matrix(monkeypatch) -> None:
    monkeypatch.setattr(evaluation, "MOST_IN_MATRIX", 2)
    report = evaluated(perfect())
    assert (report["passed"], report["matrix"]) == (True, {})
    assert report["workloads"] == list(PLAN["workloads"])


def test_hosts_with_different_plans_are_a_problem() -> None:
    hosts = perfect()
    hosts["node2"]["digest"] = "other"
    report = evaluated(hosts)
    assert report["problems"] == ["hosts have parts of different plans (node2); run heddle.ovn.networks"]
    assert not report["passed"]


@pytest.mark.parametrize(("again", "result", "says"), [
    (None, "failed", "no answer"),
    (asked_alone(), "failed", "no answer (asked alone 5 times)"),
    (asked_alone(tries=0, dead=60), "not tested", "known-good questions took more than 60 s"),
    (asked_alone(waited=3, slowest=1.0), "not tested", "known-good questions took up to 1.0 s"),
    (asked_alone(waited=4, slowest=1.0), "failed", "no answer (asked alone 5 times)"),
    # Without a control between the two hosts, what the target's own host measured counts as well.
    (asked_alone(waited=4, near=False), "not tested", "known-good questions took up to 2.0 s"),
    (asked_alone(waited=8, near=False), "failed", "no answer (asked alone 5 times)"),
])  # fmt: skip
def test_silence_fails_only_after_longer_wait_than_controls(again, result, says) -> None:
    hosts = perfect()
    silent = seen_by(hosts, "red/r1", "red/r2", "red_net")
    silent.update(answered_by=None, answered_on=None, large=False)
    hosts["node2"].update(slowest=2000, received=[])
    if again:
        hosts["node1"]["again"] = {("red/r1", "red/r2", "red_net", "10.0.0.4"): again}
    report = evaluated(hosts)
    (pair,) = [one for one in report["pairs"] if one["result"] in ("failed", "not tested")]
    assert (pair["source"], pair["result"]) == ("red/r1", result)
    assert says in (report["failures"] + report["not_tested"])[0]
    assert unconfirmed(report) == ([] if again else [("red/r1", "red/r2", "red_net", "10.0.0.4")])
    assert not report["passed"]


@pytest.mark.parametrize(("again", "text"), [
    (None, "answered by blue/b1 on red_net"),
    ({"answered": True}, "answered by blue/b1 on red_net (also when asked alone)"),
    ({"answered": False}, "answered by blue/b1 on red_net (asked alone 5 times)"),
])  # fmt: skip
def test_wrong_answerer_is_asked_for_again(again, text) -> None:
    hosts = perfect()
    seen_by(hosts, "red/r1", "red/r2", "red_net")["answered_by"] = "blue/b1"
    at = ("red/r1", "red/r2", "red_net", "10.0.0.4")
    if again:
        hosts["node1"]["again"] = {at: asked_alone() | again}
    report = evaluated(hosts)
    assert report["failures"] == [f"red/r1 -> red/r2 10.0.0.4 (network red_net, IPv4): {text}"]
    assert unconfirmed(report) == ([] if again else [at])


def test_right_answer_to_the_question_alone_replaces_a_wrong_one() -> None:
    hosts = perfect()
    asked = Expectations.of(PLAN, "node1", {}, EVERY_PAIR)
    (number,) = [number for number, row in enumerate(asked.rows) if key(row)[:3] == ("red/r1", "red/r2", "red_net")]
    right = ["red/r2", "red_net", None, 1.5, True, False]
    for wrong, passed in (("blue/b1", False), ("red/r2", True)):
        seen_by(hosts, "red/r1", "red/r2", "red_net")["answered_by"] = "blue/b1"
        record = {"questions": asked.fingerprint, "answers": [[number, wrong, *right[1:]]]}
        record["again"] = [[number, 1, 0.2, 0.002, 0, True]]
        hosts["node1"]["again"] = expand_again(record, asked, hosts["node1"]["seen"])
        assert evaluated(hosts)["passed"] is passed


def test_leak_is_final_at_once() -> None:
    hosts = perfect()
    seen_by(hosts, "blue/b1", "red/r1", "red_net").update(answered_by="red/r1", answered_on="red_net")
    report = evaluated(hosts)
    assert len(report["failures"]) == 1
    assert unconfirmed(report) == []


@pytest.mark.parametrize(("late", "result", "says"), [
    (1.0, "failed", "the packet arrived, its answer did not (asked alone 5 times)"),
    (1.1, "not tested", "the packet arrived and was answered 1.1 s later"),
])  # fmt: skip
def test_an_answer_that_a_busy_host_sent_late_is_no_failure(late, result, says) -> None:
    hosts = perfect()
    silent = seen_by(hosts, "red/r1", "red/r2", "red_net")
    silent.update(answered_by=None, answered_on=None, large=False)
    at = ("red/r1", "red/r2", "red_net", "10.0.0.4")
    hosts["node2"]["received"] = [[*at, late]]
    hosts["node1"]["again"] = {at: asked_alone(waited=4)}
    report = evaluated(hosts)
    assert [one["result"] for one in report["pairs"] if one["result"] in ("failed", "not tested")] == [result]
    assert says in (report["failures"] + report["not_tested"])[0]


def test_unanswered_large_packets_between_two_hosts_fail() -> None:
    hosts = perfect()
    seen_by(hosts, "red/r1", "red/r2", "red_net")["large"] = False
    hosts["node1"]["again"] = {("red/r1", "red/r2", "red_net", "10.0.0.4"): asked_alone()}
    mtu = PLAN["networks"]["red_net"]["mtu"]
    assert evaluated(hosts)["failures"] == [
        f"red/r1 -> red/r2 10.0.0.4 (network red_net, IPv4): packets of {mtu} bytes get no answer, small ones do "
        "(asked alone 5 times)"
    ]


def test_isolation_needs_the_record_of_the_responder() -> None:
    found = {name: results(name, host) for name, host in perfect().items()}
    found["node2"]["heddle_stopped"]["problems"] = ["the responder ended"]
    report = reported(found)
    assert (report["passed"], report["failures"]) == (False, [])
    assert report["problems"] == ["node2: the responder ended"]
    why = "addresses not tested, the responder of node2 has no record of all that it received"
    assert report["not_tested"] == [f"blue/b1: 3 {why}", f"red/r1: 2 {why}"]


def test_untested_isolation_is_repeated() -> None:
    hosts = perfect()
    seen_by(hosts, "blue/b1", "red/r1", "red_net")["untested"] = "no known-good question was answered any more"
    report = evaluated(hosts)
    assert (report["passed"], report["counts"]["not tested"], len(unconfirmed(report))) == (False, 1, 1)
    at = ("blue/b1", "red/r1", "red_net", "10.0.0.3")
    hosts["node1"]["again"] = {at: asked_alone()}
    assert evaluated(hosts)["passed"]
    hosts["node1"]["again"] = {at: asked_alone(tries=1, dead=60)}
    assert (evaluated(hosts)["passed"], unconfirmed(evaluated(hosts))) == (False, [])


def record_of(node: str, host: dict) -> str:
    """What the module returns of a host as one compressed document."""
    rows = expected(PLAN, node, EVERY_PAIR)
    answers = [
        [number, one["answered_by"], one["answered_on"], None, 1.5, one["large"], False]
        for number, row in enumerate(rows)
        if (one := host["seen"][key(row)])["answered_by"]
    ]
    asked = Expectations.of(PLAN, node, {}, EVERY_PAIR)
    return pack({"questions": asked.fingerprint, "answers": answers, "unsent": [], "untested": [], "slowest": 1.5})


def results(node: str, host: dict) -> dict:
    """The module's results on a host, as Ansible registers them."""
    own = host_plan(PLAN, node)
    responding = {"document": pack(own), "digest": own["digest"]}
    return {
        "heddle_responding": {"changed": True, "problems": host["problems"], **responding},
        "heddle_probed": {"record": record_of(node, host), "unanswered": 0, "problems": []},
        "heddle_confirmed": {"changed": False, "skipped": True, "skip_reason": "Conditional result was False"},
        "heddle_stopped": {"changed": True, "received": pack(host["received"])},
    }


def reported(hostvars: dict) -> dict:
    return reachability_report(hostvars, list(PLAN["nodes"]), {}, ALL)


def test_filter_accepts_module_results() -> None:
    found = reported({name: results(name, host) for name, host in perfect().items()})
    assert (found["passed"], found["failures"], found["not_tested"], found["problems"]) == (True, [], [], [])
    files = unpack(found["files"])
    assert json.loads(files["plan.json"]) == PLAN
    report = json.loads(files["verify.json"])
    alone = evaluate(unpack(pack(PLAN)), perfect(), None, EVERY_PAIR)
    assert report == {**json.loads(json.dumps(alone)), "time": report["time"]}
    assert files["verify.txt"] == "\n".join(reachability_table(report)) + "\n" == found["text"] + "\n"
    assert found["again"] == {}


def test_filter_returns_repeats_and_their_controls() -> None:
    hosts = perfect()
    seen_by(hosts, "red/r1", "red/r2", "red_net").update(answered_by=None)
    again = reported({name: results(name, host) for name, host in hosts.items()})["again"]
    rows = expected(PLAN, "node1", EVERY_PAIR)
    (suspect,) = [number for number, row in enumerate(rows) if key(row)[:3] == ("red/r1", "red/r2", "red_net")]
    assert {name: unpack(text) for name, text in again.items()} == {
        "node1": {"unconfirmed": [suspect], "good": [], "slowest": 0.0015}
    }


def test_record_of_other_questions_is_a_problem_of_its_host() -> None:
    hostvars = {name: results(name, host) for name, host in perfect().items()}
    hostvars["node1"]["heddle_probed"]["record"] = hostvars["node2"]["heddle_probed"]["record"]
    problem = "node1: it tested other pairs than those of its plan; run heddle.ovn.networks"
    assert reported(hostvars)["problems"] == [problem]


def test_a_module_that_failed_is_a_problem_of_its_host() -> None:
    hostvars = {name: results(name, host) for name, host in perfect().items()}
    hostvars["node1"]["heddle_probed"] = {"failed": False, "msg": "no plan in /var/lib/heddle/plan.json"}
    report = reported(hostvars)
    assert report["problems"] == ["node1: no plan in /var/lib/heddle/plan.json"]
    assert not report["passed"]


@pytest.mark.parametrize("step", ["responding", "probed", "confirmed"])
def test_problems_of_each_step_are_reported(step: str) -> None:
    hostvars = {name: results(name, host) for name, host in perfect().items()}
    hostvars["node1"][f"heddle_{step}"]["problems"] = ["the kernel did not send 3 datagrams"]
    report = reported(hostvars)
    assert (report["passed"], report["problems"]) == (False, ["node1: the kernel did not send 3 datagrams"])


def test_a_host_that_cannot_be_reached_did_not_answer() -> None:
    hostvars = {name: results(name, host) for name, host in perfect().items()}
    hostvars["node2"]["heddle_probed"] = {"unreachable": True, "msg": "no route to host"}
    assert reported(hostvars)["problems"] == ["node2: did not answer"]


def test_without_any_answer_nothing_passes() -> None:
    found = reported({})
    files = unpack(found["files"])
    assert not found["passed"]
    assert (json.loads(files["verify.json"])["pairs"], files["plan.json"]) == ([], "null\n")
