# SPDX-License-Identifier: Apache-2.0
"""Which flows are measured during a change."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.traffic.flows import (
    BY_EGRESS_IP,
    BY_SERVICE,
    COMPARISON,
    EAST_WEST,
    ICMP,
    LONG,
    NEW,
    NORTH_SOUTH,
    TO_JOIN,
    TO_SERVICE,
    UDP,
    answerers,
    chosen_workloads,
    flows,
)
from tests.pipeline import layer2, layer3, namespace, plan_of, workload

EXTERNAL = {"external": ["192.0.2.20", "2001:db8::20"]}


def plan():
    return plan_of(
        namespace("red")
        + layer2("red", "net", "10.0.0.0/16", "fd00:1::/64")
        + "".join(workload("red", f"w{number}", f"node{1 + number % 2}") for number in range(3))
        + namespace("small")
        + layer2("small", "net", "10.0.0.0/16")
        + workload("small", "alone", "node1")
        + namespace("routed")
        + layer3("routed", "net", "10.1.0.0/16", 24)
        + workload("routed", "r", "node1")
        + namespace("still")
        + layer3("still", "net", "10.2.0.0/16", 24)
        + "".join(workload("still", f"s{number}", f"node{number}") for number in (1, 2))
    )


def test_flow_selection_is_independent_of_placement() -> None:
    before, after = plan(), plan()
    for one in after["workloads"].values():
        one["node"] = "node2"
    chosen = chosen_workloads(before)
    assert chosen == {
        "red_net": ["red/w0", "red/w1", "red/w2"], "small_net": ["small/alone"], "still_net": ["still/s1", "still/s2"],
    }  # fmt: skip
    assert chosen_workloads(after) == chosen
    assert flows(before, chosen, EXTERNAL) == flows(after, chosen, EXTERNAL)


def test_workloads_of_an_egress_service_send_to_external_hosts() -> None:
    """Those of a further Layer2 network, or none where a firewall may drop it."""
    found = plan()
    extra = plan_of(
        namespace("extra")
        + layer2("extra", "net", "10.0.0.0/16", "fd00:1::/64")
        + "".join(workload("extra", f"e{number}", "node1") for number in (1, 2, 3))
    )
    for part in ("networks", "workloads"):
        found[part] |= {name: one for name, one in extra[part].items() if "extra" in name}
    del found["workloads"]["extra/e3"]
    found["workloads"] |= {f"small/{number}": found["workloads"]["small/alone"] for number in (1, 2)}
    assert "extra_net" not in chosen_workloads(found)
    found["egress_services"] = {"extra_net": {"extra/web": {"workloads": ["extra/e1", "extra/e2"]}}}
    chosen = chosen_workloads(found)
    assert [*chosen] == ["red_net", "small_net", "extra_net", "still_net"]
    assert chosen["extra_net"] == ["extra/e1", "extra/e2"]
    sent = [one for one in flows(found, {"extra_net": chosen["extra_net"]}, EXTERNAL) if one.source == "extra/e1"]
    assert [(one.kind, one.protocol, one.target, one.family) for one in sent] == [
        (BY_SERVICE, protocol, "external", number) for number in (4, 6) for protocol in (UDP, NEW)
    ]
    found["egress_firewalls"] = {"extra_net": [{"workloads": ["extra/e1"]}]}
    assert chosen_workloads(found)["extra_net"] == ["extra/e2"]


def test_each_workload_sends_to_the_next_to_external_hosts_and_to_a_join_address() -> None:
    found = flows(plan(), chosen_workloads(plan()), EXTERNAL)
    of_w2 = [flow for flow in found if flow.source == "red/w2"]
    assert {(one.kind, one.protocol, one.target, one.family) for one in of_w2} == {
        *((EAST_WEST, protocol, "red/w0", number) for protocol in (UDP, LONG) for number in (4, 6)),
        *((NORTH_SOUTH, protocol, "external", number) for protocol in (UDP, LONG, NEW) for number in (4, 6)),
        *((TO_JOIN, ICMP, "node2", number) for number in (4, 6)),
    }
    # Its network has no other workload, and no IPv6.
    assert {(one.kind, one.family) for one in found if one.source == "small/alone"} == {(NORTH_SOUTH, 4), (TO_JOIN, 4)}
    assert {one.interval for one in found if one.protocol == UDP} == {10}


def test_what_leaves_with_the_address_of_an_egress_ip_is_a_kind_of_its_own() -> None:
    found = plan()
    found["egress_ips"] = {"out": {"mark": 1, "addresses": [], "workloads": {"red_net": ["red/w0"]}}}
    sent = flows(found, chosen_workloads(found), EXTERNAL)
    ways = {(one.source, one.kind) for one in sent if one.target == "external"}
    assert {way for way in ways if way[0].startswith("red/")} == {
        ("red/w0", BY_EGRESS_IP), ("red/w1", NORTH_SOUTH), ("red/w2", NORTH_SOUTH),
    }  # fmt: skip
    assert [one.protocol for one in sent if one.kind == BY_EGRESS_IP and one.family == 4] == [UDP, LONG, NEW]


def test_connections_to_a_service_of_the_network() -> None:
    text = namespace("red") + layer2("red", "net", "10.0.0.0/16", "fd00:1::/64")
    for number in (1, 2):
        made = workload("red", f"w{number}", f"node{number}")
        text += made.replace("namespace: red", "namespace: red, labels: {app: web}") if number == 1 else made
    web = """---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: red}
spec:
  ipFamilyPolicy: PreferDualStack
  selector: {app: SELECTED}
  ports: [{port: 53, protocol: UDP, name: dns}, {port: 80, targetPort: 8080, name: http}]
"""
    found = plan_of(text + web.replace("SELECTED", "web"))
    sent = [one for one in flows(found, chosen_workloads(found), {}) if one.kind == TO_SERVICE]
    assert {(one.protocol, one.source, one.target, one.family, one.port, one.endpoints) for one in sent} == {
        (NEW, source, "red/web", number, 80, ("red/w1",)) for source in ("red/w1", "red/w2") for number in (4, 6)
    }
    assert {one.address for one in sent} == {*found["services"]["red_net"]["red/web"]["addresses"]}
    # Of networks with as many workloads those with Services are measured first.
    others = ("alpha", "beta")
    text += "".join(
        namespace(name) + layer2(name, "net", "10.0.0.0/16", "fd00:1::/64")
        + "".join(workload(name, f"w{number}", f"node{number}") for number in (1, 2))
        for name in others
    )  # fmt: skip
    assert list(chosen_workloads(plan_of(text))) == ["alpha_net", "beta_net"]
    assert list(chosen_workloads(plan_of(text + web.replace("SELECTED", "web")))) == ["red_net", "alpha_net"]
    # Without endpoints the connections are rejected by the Service itself, which says nothing of a path.
    empty = plan_of(text + web.replace("SELECTED", "none"))
    assert not [one for one in flows(empty, chosen_workloads(empty), {}) if one.kind == TO_SERVICE]


def test_a_network_that_does_not_change_is_measured_for_comparison() -> None:
    found = [flow for flow in flows(plan(), chosen_workloads(plan()), EXTERNAL) if flow.network == "still_net"]
    assert [(one.kind, one.protocol, one.source, one.target) for one in found] == [
        (COMPARISON, UDP, "still/s1", "still/s2"), (COMPARISON, UDP, "still/s2", "still/s1"),
    ]  # fmt: skip


def test_nothing_is_sent_to_external_hosts_where_the_default_route_leads_out_of_another_network() -> None:
    text = namespace("red") + layer2("red", "net", "10.0.0.0/16", "fd00:1::/64")
    text += layer2("red", "other", "10.7.0.0/24").replace("Primary", "Secondary")
    found = plan_of(text + workload("red", "w", "node1", [{"name": "other", "default-route": ["10.7.0.9"]}]))
    sent = flows(found, chosen_workloads(found), EXTERNAL)
    assert {one.family for one in sent if one.kind == NORTH_SOUTH} == {6}


def test_every_target_among_workloads_answers() -> None:
    chosen = chosen_workloads(plan())
    answering = {(one.owner, one.address) for one in answerers(plan(), chosen)}
    assert {(one.target, one.address) for one in flows(plan(), chosen, {}) if one.kind == EAST_WEST} <= answering


def test_of_many_workloads_some_of_each_node_are_chosen() -> None:
    text = namespace("red") + layer2("red", "net", "10.0.0.0/16")
    many = plan_of(text + "".join(workload("red", f"w{n:02}", f"node{1 + n // 10}") for n in range(20)))
    chosen = chosen_workloads(many)["red_net"]
    assert len(chosen) == 4
    assert {many["workloads"][name]["node"] for name in chosen} == {"node1", "node2"}
