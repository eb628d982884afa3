# SPDX-License-Identifier: Apache-2.0
"""EgressIPs through admission: assignment, status, the nodes of networks, the plan, and a drain."""

from __future__ import annotations

import copy
import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers import layer2_steps
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.plan.address_holders import moved_addresses
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.egress_ips import leaving
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.entrances import held_addresses
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import NodeNetwork, attachments
from tests.pipeline import decide, labelled, layer2, namespace, stored, with_gateways, with_nics, workload

HOSTS = labelled(with_gateways("shared"))
TEXT = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64") + workload("red", "a", "node1")
    + namespace("plain", primary=False) + workload("plain", "b", "node3")
)  # fmt: skip


def egress_ip(name: str, *addresses: str, **selectors) -> str:
    spec = {"egressIPs": list(addresses), "namespaceSelector": {}, **selectors}
    document = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP", "metadata": {"name": name}, "spec": spec}
    return f"---\n{json.dumps(document)}\n"


def status_of(snapshot, name: str) -> tuple[str, str]:
    [one] = snapshot.objects[f"EgressIP/{name}"].status["conditions"]
    return one["status"], one["reason"]


def hosts_with(*names: str) -> dict:
    return {name: host if name in names else {**host, "labels": {}} for name, host in HOSTS.items()}


def test_assignment_is_in_the_status_and_in_the_plan():
    after = stored(TEXT + egress_ip("web", "192.0.2.100", "192.0.2.101"), hosts=HOSTS)
    items = after.objects["EgressIP/web"].status["items"]
    assert items == [{"egressIP": "192.0.2.100", "node": "node1"}, {"egressIP": "192.0.2.101", "node": "node2"}]
    assert status_of(after, "web") == ("True", "Assigned")
    plan = build_plan(after)
    assert plan["egress_ips"]["web"]["workloads"] == {"red_net": ["red/a"], "default": ["plain/b"]}
    assert plan["egress_ips"]["web"]["mark"] == 50000
    # The network is where its workload is, and where the addresses are.
    assert plan["networks"]["red_net"]["nodes"] == ["node1", "node2"]


def test_only_addresses_of_a_host_without_its_label_move():
    text = TEXT + egress_ip("web", "192.0.2.100", "192.0.2.101")
    before = stored(text, hosts=HOSTS)
    after = stored(text, before, hosts=hosts_with("node1", "node3"))
    old, new = build_plan(before), build_plan(after)
    assert moved_addresses(old, new) == {"192.0.2.101": "node2"}
    assert moved_addresses(new, build_plan(stored(text, after, hosts=HOSTS))) == {}
    assert held_addresses(new, "node1") == ["192.0.2.100"]
    # The run that moved it was cut off: its former host has it still.
    assert moved_addresses(new, new, {"node1": ["192.0.2.100"], "node2": ["192.0.2.101"]}) == {"192.0.2.101": "node2"}
    assert moved_addresses(new, new, {"gone": ["192.0.2.101"], "node3": ["192.0.2.101"]}) == {}
    # A former host was not reached, and the new one has the address: it stays there, without any step back.
    assert moved_addresses(new, new, {"node2": ["192.0.2.101"], "node3": ["192.0.2.101"]}) == {}


@pytest.mark.parametrize(
    ("address", "hosts", "reason"),
    [
        ("198.51.100.1", HOSTS, "NoMatchingNodeFound"),
        ("192.0.2.100", with_gateways("shared"), "NoMatchingNodeFound"),
        ("192.0.2.12", HOSTS, "EgressIPConflict"),
        ("198.18.1.11", HOSTS, "EgressIPConflict"),
        ("203.0.113.12", with_nics(HOSTS), "EgressIPConflict"),
        ("192.0.2.1", HOSTS, "EgressIPConflict"),
        ("192.0.2.0", HOSTS, "EgressIPConflict"),
        ("192.0.2.255", HOSTS, "EgressIPConflict"),
        ("2001:db8::", HOSTS, "EgressIPConflict"),
        ("203.0.113.255", with_nics(HOSTS), "EgressIPConflict"),
    ],
)
def test_address_without_a_host_is_reported_and_others_work(address, hosts, reason):
    after = stored(TEXT + egress_ip("one", address) + egress_ip("two", "192.0.2.101"), hosts=hosts)
    assert status_of(after, "one") == ("False", reason)
    if hosts != with_gateways("shared"):
        assert build_plan(after)["egress_ips"].keys() == {"two"}


def test_the_message_says_what_an_address_is_already():
    words = {
        "192.0.2.1": "192.0.2.1 is the default gateway of host node1",
        "192.0.2.12": "192.0.2.12 is an address of host node2",
        "192.0.2.255": "192.0.2.255 is the broadcast address of 192.0.2.0/24",
        "2001:db8::": "2001:db8:: is the anycast address of routers in 2001:db8::/64 (RFC 4291)",
    }
    for address, message in words.items():
        after = stored(TEXT + egress_ip("one", address), hosts=HOSTS)
        assert after.objects["EgressIP/one"].status["conditions"][0]["message"] == message


def test_a_point_to_point_subnet_has_no_edges():
    """RFC 3021: both addresses of a /31 are for hosts."""
    gateway = {**HOSTS["node1"]["gateway"], "addresses": ["192.0.2.11/31"], "next_hops": []}
    after = stored(
        TEXT + egress_ip("one", "192.0.2.10"), hosts={**HOSTS, "node1": {**HOSTS["node1"], "gateway": gateway}}
    )
    assert status_of(after, "one") == ("True", "Assigned")


@pytest.mark.parametrize(
    ("address", "reason"), [("2001:db8::100", "IPFamilyNotOnNetwork"), ("203.0.113.100", "NetworkNotSupported")]
)
def test_an_egress_ip_without_an_address_for_a_network_keeps_no_other_from_it(address, reason):
    """The first by name would be in effect, and the workload would leave with the address of its node."""
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "a", "node1")
    text += egress_ip("all", address) + egress_ip("shop", "192.0.2.100")
    after = stored(text, hosts=with_nics(HOSTS))
    assert status_of(after, "all") == ("False", reason)
    assert status_of(after, "shop") == ("True", "Assigned")
    assert build_plan(after)["egress_ips"]["shop"]["workloads"] == {"red_net": ["red/a"]}
    assert build_plan(after)["egress_ips"]["all"]["workloads"] == {}


def test_address_on_another_nic_is_for_the_default_network():
    inside = {"matchLabels": {"kubernetes.io/metadata.name": "plain"}}
    text = egress_ip("plain", "203.0.113.100", "2001:db8:3::100", namespaceSelector=inside)
    after = stored(TEXT + text, hosts=with_nics(HOSTS))
    assert status_of(after, "plain") == ("True", "Assigned")
    (entry,) = build_plan(after)["egress_ips"].values()
    assert entry["addresses"] == [
        {"address": "203.0.113.100", "node": "node1", "nic": "eth3"},
        {"address": "2001:db8:3::100", "node": "node2", "nic": "eth3"},
    ]
    # A workload of a user-defined network leaves with the address of its node.
    after = stored(TEXT + egress_ip("all", "203.0.113.100"), hosts=with_nics(HOSTS))
    assert status_of(after, "all") == ("False", "NetworkNotSupported")
    condition = after.objects["EgressIP/all"].status["conditions"][0]
    assert condition["message"] == (
        "egress IP assigned to a host secondary interface for a user defined network (network name red_net) is "
        "unsupported: 203.0.113.100"
    )
    plan = build_plan(after)
    attached = attachments(plan)
    assert not leaving(NodeNetwork(plan, "red_net", "node1", attached["red_net"]))
    assert [one.nics for one in leaving(NodeNetwork(plan, "default", "node1", attached["default"]))] == [
        {"203.0.113.100": "eth3"}
    ]


def test_a_workload_leaves_with_the_first_egress_ip_by_name():
    after = stored(TEXT + egress_ip("b", "192.0.2.100") + egress_ip("a", "192.0.2.101"), hosts=HOSTS)
    assert status_of(after, "a") == ("True", "Assigned")
    assert status_of(after, "b") == ("False", "WorkloadInUse")
    assert build_plan(after)["egress_ips"]["b"]["workloads"] == {}


def test_the_egress_ip_in_effect_stays_so():
    text = TEXT + egress_ip("b", "192.0.2.100")
    first = stored(text, hosts=HOSTS)
    assert first.objects["Workload/red/a"].status["egressIP"] == "b"
    text += egress_ip("a", "192.0.2.101")
    second = stored(text, first, hosts=HOSTS)
    assert (status_of(second, "b"), status_of(second, "a")[1]) == (("True", "Assigned"), "WorkloadInUse")
    assert build_plan(second)["egress_ips"]["b"] == build_plan(first)["egress_ips"]["b"]
    assert build_plan(second)["egress_ips"]["a"]["workloads"] == {}
    # A workload that is new has none yet: the first by name.
    third = stored(text + workload("red", "new", "node1"), second, hosts=HOSTS)
    assert build_plan(third)["egress_ips"]["a"]["workloads"] == {"red_net": ["red/new"]}
    # A second admission changes nothing.
    again = stored(text, second, hosts=HOSTS, now="2026-02-01T00:00:00Z")
    assert (again.objects, again.allocations) == (second.objects, second.allocations)


@pytest.mark.parametrize("gone", ["removed", "selects others", "without a host"])
def test_a_waiting_egress_ip_gets_and_keeps_workloads(gone):
    first = stored(TEXT + egress_ip("b", "192.0.2.100"), hosts=HOSTS)
    second = stored(TEXT + egress_ip("b", "192.0.2.100") + egress_ip("a", "192.0.2.101"), first, hosts=HOSTS)
    other = {
        "removed": "",
        "selects others": egress_ip("b", "192.0.2.100", podSelector={"matchLabels": {"app": "none"}}),
        "without a host": egress_ip("b", "198.51.100.1"),
    }[gone]
    third = stored(TEXT + other + egress_ip("a", "192.0.2.101"), second, hosts=HOSTS)
    both = {"red_net": ["red/a"], "default": ["plain/b"]}
    assert build_plan(third)["egress_ips"]["a"]["workloads"] == both
    returned = stored(TEXT + egress_ip("0", "192.0.2.100") + egress_ip("a", "192.0.2.101"), third, hosts=HOSTS)
    assert build_plan(returned)["egress_ips"]["a"]["workloads"] == both
    nothing = stored(TEXT, returned, hosts=HOSTS)
    assert "egressIP" not in nothing.objects["Workload/red/a"].status


def test_names_decide_in_a_state_of_an_older_release():
    after = stored(TEXT + egress_ip("b", "192.0.2.100") + egress_ip("a", "192.0.2.101"), hosts=HOSTS)
    older = copy.deepcopy(after)
    for entry in older.of_kind("Workload"):
        older.objects[entry.key] = entry.with_status(egressIP=None)
    assert build_plan(older) == build_plan(after)
    assert build_plan(older)["egress_ips"]["a"]["workloads"] == {"red_net": ["red/a"], "default": ["plain/b"]}


def test_an_egress_ip_without_a_host_takes_no_workload():
    after = stored(TEXT + egress_ip("b", "192.0.2.100") + egress_ip("a", "198.51.100.1"), hosts=HOSTS)
    assert status_of(after, "b") == ("True", "Assigned")
    assert build_plan(after)["egress_ips"]["b"]["workloads"] == {"red_net": ["red/a"], "default": ["plain/b"]}


def test_a_drain_that_leaves_it_without_a_host_passes_workloads_on():
    """They do not return when the host does: their connections would end a second time."""
    beyond = {**HOSTS["node1"]["gateway"], "addresses": ["198.51.100.11/24"], "next_hops": ["198.51.100.1"]}
    hosts = {**HOSTS, "node1": {**HOSTS["node1"], "gateway": beyond}}
    text = TEXT + egress_ip("a", "198.51.100.100") + egress_ip("b", "192.0.2.100")
    before = stored(text, hosts=hosts, settings={"layer2_topology": "gateway-router"})
    both = {"red_net": ["red/a"], "default": ["plain/b"]}
    assert build_plan(before)["egress_ips"]["a"]["workloads"] == both
    drained, _moves, _blockers = layer2_steps.drain(before, ["node1"], "2.0")
    assert build_plan(drained)["egress_ips"]["b"]["workloads"] == both
    changed, _blockers = layer2_steps.change_version(drained, ["node1"], "2.0")
    assert changed.objects["EgressIP/a"].status["items"]
    assert build_plan(changed)["egress_ips"]["b"]["workloads"] == both


@pytest.mark.parametrize("meanwhile", ["no label", "drain"])
def test_the_egress_ip_in_effect_is_the_same_after_a_time_without_any_host(meanwhile):
    """As with one host for egress addresses, which leaves for a while."""
    hosts = {name: {**host, "labels": HOSTS["node1"]["labels"] if name == "node1" else {}}
             for name, host in HOSTS.items()}  # fmt: skip
    settings = {"layer2_topology": "gateway-router"}
    first = stored(TEXT + egress_ip("b", "192.0.2.100"), hosts=hosts, settings=settings)
    text = TEXT + egress_ip("b", "192.0.2.100") + egress_ip("a", "192.0.2.101")
    second = stored(text, first, hosts=hosts, settings=settings)
    if meanwhile == "drain":
        without, _moves, _blockers = layer2_steps.drain(second, ["node1"], "2.0")
        third, _blockers = layer2_steps.change_version(without, ["node1"], "2.0")
    else:
        unlabelled = {name: {**host, "labels": {}} for name, host in hosts.items()}
        without = stored(text, second, hosts=unlabelled, settings=settings)
        again = stored(text, without, hosts=unlabelled, settings=settings)
        assert again.objects == without.objects
        third = stored(text, without, hosts=hosts, settings=settings)
    assert build_plan(without)["egress_ips"] == {}
    assert build_plan(third)["egress_ips"]["b"]["workloads"] == {"red_net": ["red/a"], "default": ["plain/b"]}


def test_selectors_choose_namespaces_and_workloads():
    inside = {"matchLabels": {"kubernetes.io/metadata.name": "plain"}}
    after = stored(TEXT + egress_ip("web", "192.0.2.100", namespaceSelector=inside), hosts=HOSTS)
    assert build_plan(after)["egress_ips"]["web"]["workloads"] == {"default": ["plain/b"]}
    nothing = {"matchLabels": {"app": "web"}}
    after = stored(TEXT + egress_ip("web", "192.0.2.100", podSelector=nothing), hosts=HOSTS)
    assert build_plan(after)["egress_ips"]["web"]["workloads"] == {}


def test_addresses_leave_the_nodes_that_are_drained():
    text = TEXT + egress_ip("web", "192.0.2.100", "192.0.2.101")
    before = stored(text, hosts=HOSTS, settings={"layer2_topology": "gateway-router"})
    drained, _moves, blockers = layer2_steps.drain(before, ["node1"], "2.0")
    assert not blockers
    holders = {item["egressIP"]: item["node"] for item in drained.objects["EgressIP/web"].status["items"]}
    assert holders == {"192.0.2.100": "node3", "192.0.2.101": "node2"}
    # What is admitted next leaves them there.
    assert stored(text, drained, hosts=HOSTS).objects["EgressIP/web"].status["items"][0]["node"] == "node3"


def test_address_without_another_host_returns_with_the_change_of_the_node():
    text = TEXT + egress_ip("web", "192.0.2.100", "192.0.2.101", "192.0.2.102")
    before = stored(text, hosts=HOSTS, settings={"layer2_topology": "gateway-router"})
    drained, _moves, _blockers = layer2_steps.drain(before, ["node1"], "2.0")
    assert len(drained.objects["EgressIP/web"].status["items"]) == 2
    assert status_of(drained, "web") == ("False", "UnassignedRequest")
    changed, blockers = layer2_steps.change_version(drained, ["node1"], "2.0", "2026-01-01T00:00:00Z")
    assert not blockers
    assert changed.objects["EgressIP/web"] == before.objects["EgressIP/web"]


def test_the_steps_of_an_upgrade_leave_the_conditions_that_the_next_run_finds():
    settings = {"layer2_topology": "gateway-router"}
    text = TEXT + egress_ip("b", "192.0.2.100") + egress_ip("a", "192.0.2.101")
    hosts = hosts_with("node1")
    first = stored(text, hosts=hosts, settings=settings)
    assert (status_of(first, "a"), status_of(first, "b")[1]) == (("True", "Assigned"), "WorkloadInUse")
    drained, _moves, _blockers = layer2_steps.drain(first, ["node1"], "2.0", "2026-02-01T00:00:00Z")
    for name in ("a", "b"):
        assert status_of(drained, name) == ("False", "NoMatchingNodeFound")
    [condition] = drained.objects["EgressIP/a"].status["conditions"]
    assert condition["lastTransitionTime"] == "2026-02-01T00:00:00Z"
    changed, _blockers = layer2_steps.change_version(drained, ["node1"], "2.0", "2026-02-02T00:00:00Z")
    assert status_of(changed, "a") == ("True", "Assigned")
    again = stored(text, changed, hosts=hosts, settings=settings, now="2026-02-02T00:00:00Z")
    assert again.of_kind("EgressIP") == changed.of_kind("EgressIP")


def test_labels_of_a_node_are_checked():
    hosts = {**HOSTS, "node1": {**HOSTS["node1"], "labels": {"k8s.ovn.org/egress-assignable": True}}}
    _after, problems = decide(TEXT, hosts=hosts)
    assert [problem.rule for problem in problems] == ["k8s.ovn.org/egress-assignable: True is no label"]
