# SPDX-License-Identifier: Apache-2.0
"""Changes of the engines as drift in the audit's report."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.causes import Host, group
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.drift import audit_report, drift
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.tables import audit_table

NORTHBOUND = "OVN_Northbound"
OUTCOME = Outcome(
    (
        Change(NORTHBOUND, "create", "Logical_Router", "red_red_ovn_cluster_router", "red_red", {}, {"name": "r"}),
        Change(NORTHBOUND, "delete", "Logical_Switch", "old_ovn_layer2_switch", "old", {"name": "o"}, {}),
        Change(
            NORTHBOUND,
            "update",
            "Logical_Switch_Port",
            "red.red_red_red1",
            "red_red",
            {"addresses": ["unknown"], "options": {"requested-chassis": "c1"}, "enabled": False},
            {"addresses": {"b", "a"}, "options": {"requested-chassis": "c1"}, "enabled": None},
        ),
        Change("kernel", "update", "link", "red_red1/eth0", "default", {"mtu": 1500}, {"mtu": 1400}),
    )
)
FOREIGN = {"substrate": NORTHBOUND, "kind": "Logical_Switch", "name": "by-hand", "identity": "u"}


def host(**changes) -> dict:
    clean = {"drift": [], "causes": [], "foreign": [], "notes": [], "problems": [], "checked": 5, "digest": "d1"}
    return {**clean, **changes}


def test_one_entry_per_object_and_column() -> None:
    head = {"substrate": NORTHBOUND, "network": "red_red"}
    port = {**head, "kind": "Logical_Switch_Port", "name": "red.red_red_red1"}
    assert drift(OUTCOME) == [
        {
            **head, "kind": "Logical_Router", "name": "red_red_ovn_cluster_router",
            "column": None, "expected": {"name": "r"}, "found": None,
        },
        {
            "substrate": NORTHBOUND, "network": "old", "kind": "Logical_Switch", "name": "old_ovn_layer2_switch",
            "column": None, "expected": None, "found": {"name": "o"},
        },
        {**port, "column": "addresses", "expected": ["a", "b"], "found": ["unknown"]},
        {**port, "column": "enabled", "expected": None, "found": False},
        {
            "substrate": "kernel", "network": "default", "kind": "link", "name": "red_red1/eth0", "column": "mtu",
            "expected": 1400, "found": 1500,
        },
    ]  # fmt: skip


def test_missing_namespace_or_link_is_reported_without_its_contents() -> None:
    changes = (
        Change("kernel", "create", "network namespace", "red_red1", "", {}, {"links": ["eth0"]}),
        Change("kernel", "create", "link", "red_red1/eth0", "default", {}, {"mtu": 1400}),
        Change("kernel", "update", "routes", "red_red1/eth0", "default", {"routes": []}, {"routes": ["r"]}),
        Change("kernel", "create", "link", "red_red2/eth0", "default", {}, {"mtu": 1400}),
        Change("kernel", "update", "addresses", "red_red2/eth0", "default", {"addresses": []}, {"addresses": ["a"]}),
        Change("kernel", "update", "addresses", "red_red2/eth1", "red", {"addresses": []}, {"addresses": ["a"]}),
    )
    found = [(entry["kind"], entry["name"]) for entry in drift(Outcome(changes))]
    assert found == [
        ("network namespace", "red_red1"),
        ("link", "red_red2/eth0"),
        ("addresses", "red_red2/eth1"),
    ]


def test_the_table() -> None:
    found = drift(OUTCOME)
    causes, _places = group(found, Host(networks=frozenset({"red_red", "default"})))
    hosts = {
        "node1": host(drift=found, causes=causes, foreign=[FOREIGN]),
        "node2": host(notes=["no cgroup of the prober"]),
    }
    report = audit_report(
        hosts, ["node1", "node2", "node3"], "d0", dict.fromkeys(("node1", "node2", "node3"), "d1"), foreign_fails=False
    )
    assert (
        "\n".join(audit_table(report))
        == """\
Hosts (plan d0)
  host   plan  objects  drift  causes  foreign  notes  problems
  node1  d1          5      5       5        1      0         0
  node2  d1          5      0       0        0      1         0

Drift by cause (5)
  node1: OVN_Northbound Logical_Router red_red_ovn_cluster_router (network red_red): missing
  node1: plan network old: not in the plan; explains 1 more: OVN_Northbound Logical_Switch 1
  node1: OVN_Northbound Logical_Switch_Port red.red_red_red1 (network red_red): addresses: expected [a, b], \
found [unknown]
  node1: OVN_Northbound Logical_Switch_Port red.red_red_red1 (network red_red): enabled: expected nothing, found False
  node1: kernel link red_red1/eth0 (network default): mtu: expected 1400, found 1500

Foreign objects, left alone (1)
  node1: OVN_Northbound Logical_Switch by-hand

Notes (1)
  node2: no cgroup of the prober

Problems (1)
  node3: did not answer

FAILED: 2 hosts, 5 drifted, 1 foreign, 1 notes, 1 problems"""
    )


def test_notes_are_counted_and_cut_for_each_host_and_do_not_fail_the_audit() -> None:
    hosts = {
        "node1": host(notes=[f"route {number}" for number in range(20)]),
        "node2": host(notes=[f"route {number}" for number in range(21)]),
    }
    report = audit_report(hosts, list(hosts), None, None, foreign_fails=True)
    lines = audit_table(report)
    assert report["passed"]
    assert "Notes (41)" in lines
    assert [line for line in lines if "more" in line] == ["  node2: and 2 more"]
    assert [sum(line.startswith(f"  {name}: ") for line in lines) for name in hosts] == [20, 20]
    assert len(report["hosts"]["node2"]["notes"]) == 21


def test_foreign_objects_fail_only_on_request() -> None:
    hosts = {"node1": host(foreign=[FOREIGN])}
    assert audit_report(hosts, ["node1"], None, None, foreign_fails=False)["passed"]
    assert not audit_report(hosts, ["node1"], None, None, foreign_fails=True)["passed"]


def test_another_plan_than_that_of_the_manifests_fails() -> None:
    hosts = {"node1": host(), "node2": host(digest="d2")}
    names = ["node1", "node2"]
    assert audit_report(hosts, names, "d0", {"node1": "d1", "node2": "d2"}, foreign_fails=False)["problems"] == []
    report = audit_report(hosts, names, "d0", {"node1": "d1", "node2": "d3"}, foreign_fails=False)
    assert report["problems"] == ["the stored manifests make another plan than node2 has; run heddle.ovn.networks"]
    report = audit_report(hosts, names, "d0", {"node1": "d3"}, foreign_fails=False)
    assert report["problems"] == [
        "the stored manifests make another plan than node1, node2 have; run heddle.ovn.networks"
    ]


def test_the_table_says_that_the_state_database_did_not_answer() -> None:
    line = "The state database did not answer; hosts may have an older plan."
    for host_plans, shown in ((None, True), ({"node1": "d1"}, False)):
        report = audit_report({"node1": host()}, ["node1"], None, host_plans, foreign_fails=False)
        assert report["passed"]
        assert (line in audit_table(report)) == shown


def test_no_host_is_a_failure() -> None:
    nothing = audit_report({}, [], None, None, foreign_fails=False)
    message = "no host was audited; name hosts of the group heddle_nodes in heddle_audit_hosts"
    assert (nothing["passed"], nothing["problems"]) == (False, [message])
    failed = audit_report({"node1": {"error": "no plan"}}, ["node1"], None, None, foreign_fails=False)
    assert (failed["passed"], failed["problems"]) == (False, ["node1: no plan"])
