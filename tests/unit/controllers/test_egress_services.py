# SPDX-License-Identifier: Apache-2.0
"""EgressServices through admission: the host, status, labels of nodes, the nodes of networks, and the plan."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers import layer2_steps
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.address_holders import update_holders
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.allocation.address_assignment import (
    Candidate,
    assigned_hosts,
)
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.node_labels import labels_of_nodes
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.plan.address_holders import moved_addresses
from tests.pipeline import labelled, layer2, namespace, stored, with_gateways, workload

SHARED, LOCAL = with_gateways("shared"), with_gateways("local")
LATE = "2026-01-02T00:00:00Z"
POOL = """---
apiVersion: heddle.dev/v1
kind: LoadBalancerPool
metadata: {name: provider}
spec: {subnets: [192.0.2.200/29, "2001:db8::c00/125"]}
"""


def web(where: str, name: str, node: str) -> str:
    return workload(where, name, node).replace(f": {where}}}", f": {where}, labels: {{app: web}}}}")


TEXT = (
    POOL
    + namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + web("red", "a", "node2") + workload("red", "other", "node2")
    + namespace("plain", primary=False) + web("plain", "b", "node3") + web("plain", "c", "node2")
)  # fmt: skip


def service(where: str, name: str = "web", more: str = "type: LoadBalancer") -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {where}}}\n"
        f"spec: {{selector: {{app: web}}, ipFamilyPolicy: PreferDualStack, ports: [{{port: 80}}], {more}}}\n"
    )


def egress_service(where: str, name: str = "web", **spec) -> str:
    document = {
        "apiVersion": "k8s.ovn.org/v1", "kind": "EgressService", "metadata": {"name": name, "namespace": where},
        "spec": spec,
    }  # fmt: skip
    return f"---\n{json.dumps(document)}\n"


def on(*names: str) -> dict:
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}]}


def reason(snapshot, key: str = "plain/web") -> str:
    return condition(snapshot.objects[f"EgressService/{key}"], "Assigned")["reason"]


def host(snapshot, key: str = "plain/web") -> str:
    return snapshot.objects[f"EgressService/{key}"].status["host"]


def test_one_host_has_all_addresses_of_the_service_and_its_endpoints_leave_by_it():
    text = TEXT + service("plain") + service("red") + egress_service("plain") + egress_service("red")
    after = stored(text, hosts=SHARED)
    for key in ("plain/web", "red/web"):
        held = after.objects[f"Service/{key}"].status["announcers"]
        assert len(held) == 2
        assert set(held.values()) == {host(after, key)}
        assert reason(after, key) == "Assigned"
    assert host(after, "plain/web") != host(after, "red/web")
    found = build_plan(after)["egress_services"]
    plain = found["default"]["plain/web"]
    assert plain == {
        "host": "node1", "addresses": ["192.0.2.200", "2001:db8::c00"], "table": "",
        "cluster_ips": after.objects["Service/plain/web"].status["clusterIPs"], "node_ports": [],
        "workloads": ["plain/b", "plain/c"],
    }  # fmt: skip
    assert (found["red_net"]["red/web"]["workloads"], found["red_net"]["red/web"]["mark"]) == (["red/a"], 50000)


def test_a_second_admission_changes_nothing():
    text = TEXT + service("plain") + service("red") + egress_service("plain") + egress_service("red")
    first = stored(text, hosts=SHARED)
    second = stored(text, first, hosts=SHARED, now="2026-02-01T00:00:00Z")
    assert (second.objects, second.allocations) == (first.objects, first.allocations)


def test_the_selector_moves_the_host_and_nothing_else():
    text = TEXT + service("plain") + service("red") + egress_service("red")
    first = stored(text + egress_service("plain", nodeSelector=on("node3")), hosts=SHARED)
    assert host(first) == "node3"
    second = stored(text + egress_service("plain", nodeSelector=on("node2", "node3")), first, hosts=SHARED)
    assert host(second) == "node3"
    third = stored(text + egress_service("plain", nodeSelector=on("node2")), second, hosts=SHARED)
    assert host(third) == "node2"
    plain = first.objects["Service/plain/web"].status["announcers"]
    moved = moved_addresses(build_plan(second), build_plan(third))
    assert moved == dict.fromkeys(sorted(plain), "node3")


def test_the_host_has_a_label_that_others_select():
    firewall = {
        "apiVersion": "k8s.ovn.org/v1", "kind": "EgressFirewall", "metadata": {"name": "default", "namespace": "red"},
        "spec": {"egress": [{"type": "Allow", "to": {
            "nodeSelector": {"matchLabels": {"egress-service.k8s.ovn.org/plain-web": ""}}}}]},
    }  # fmt: skip
    text = TEXT + service("plain") + egress_service("plain", nodeSelector=on("node3"))
    after = stored(f"{text}---\n{json.dumps(firewall)}\n", hosts=SHARED)
    with_label = [name for name, labels in labels_of_nodes(after).items() if any("plain-web" in one for one in labels)]
    assert with_label == ["node3"]
    [one] = build_plan(after)["egress_firewalls"]["red_net"]
    assert "192.0.2.13" in one["rules"][0]["targets"]


def test_external_traffic_policy_local_selects_a_host_with_an_endpoint():
    text = TEXT + service("plain", more="type: LoadBalancer, externalTrafficPolicy: Local")
    assert host(stored(text + egress_service("plain"), hosts=SHARED)) in ("node2", "node3")
    none = stored(text + egress_service("plain", nodeSelector=on("node1")), hosts=SHARED)
    assert (host(none), reason(none)) == ("", "NoMatchingNodeFound")
    assert condition(none.objects["Service/plain/web"], "Announced")["reason"] == "NoMatchingNodeFound"


@pytest.mark.parametrize(
    ("more", "hosts", "expected"),
    [
        (egress_service("plain"), SHARED, "ServiceNotFound"),
        (service("plain", more="type: NodePort") + egress_service("plain"), SHARED, "ServiceNotSupported"),
        (service("plain") + egress_service("plain", nodeSelector=on("node9")), SHARED, "NoMatchingNodeFound"),
        (service("plain") + egress_service("plain", sourceIPBy="Network"), SHARED, "GatewayModeNotSupported"),
        (service("plain") + egress_service("plain", sourceIPBy="Network", network="blue"), LOCAL, "Assigned"),
        (service("plain").replace("app: web", "app: none") + egress_service("plain"), SHARED, "NoEndpoints"),
    ],
)  # fmt: skip
def test_why_there_is_no_host(more, hosts, expected):
    after = stored(TEXT + more, hosts=hosts)
    assert reason(after) == expected
    assert (host(after) == "") == (expected != "Assigned")


@pytest.mark.parametrize("spec", [{"network": "blue"}, {"sourceIPBy": "Network"}])
def test_routing_tables_are_for_the_default_network(spec):
    after = stored(TEXT + service("red") + egress_service("red", **spec), hosts=LOCAL)
    assert (host(after, "red/web"), reason(after, "red/web")) == ("", "NetworkNotSupported")
    # The Service itself works as without.
    assert condition(after.objects["Service/red/web"], "Announced")["status"] == "True"


def test_without_an_address_there_is_no_host():
    after = stored(TEXT.replace(POOL, "") + service("plain") + egress_service("plain"), hosts=SHARED)
    assert (host(after), reason(after)) == ("", "NoAddress")


def test_all_hosts_with_the_routing_of_a_network():
    text = TEXT + service("plain") + egress_service("plain", sourceIPBy="Network", network="blue")
    after = stored(text, hosts=LOCAL)
    assert host(after) == "ALL"
    [entry] = build_plan(after)["egress_services"]["default"].values()
    assert (entry["host"], entry["addresses"], entry["table"]) == ("ALL", [], "blue")


def test_a_workload_leaves_by_the_first_egress_service_by_name():
    text = (
        TEXT + service("plain") + service("plain", "also") + egress_service("plain") + egress_service("plain", "also")
    )
    after = stored(text, hosts=SHARED)
    assert (reason(after, "plain/also"), reason(after, "plain/web")) == ("Assigned", "WorkloadInUse")
    assert build_plan(after)["egress_services"]["default"].keys() == {"plain/also"}


def test_the_egress_service_in_effect_stays_so():
    text = TEXT + service("plain") + service("plain", "also")
    first = stored(text + egress_service("plain"), hosts=SHARED)
    both = text + egress_service("plain") + egress_service("plain", "also")
    second = stored(both, first, hosts=SHARED)
    assert (reason(second, "plain/web"), reason(second, "plain/also")) == ("Assigned", "WorkloadInUse")
    assert build_plan(second)["egress_services"] == build_plan(first)["egress_services"]
    again = stored(both, second, hosts=SHARED, now="2026-02-01T00:00:00Z")
    assert (again.objects, again.allocations) == (second.objects, second.allocations)
    # Without a host it has no endpoints, and the other one has them from then on.
    nowhere = egress_service("plain", nodeSelector=on("node9")) + egress_service("plain", "also")
    third = stored(text + nowhere, second, hosts=SHARED)
    assert build_plan(third)["egress_services"]["default"].keys() == {"plain/also"}
    fourth = stored(both, third, hosts=SHARED)
    assert build_plan(fourth)["egress_services"]["default"].keys() == {"plain/also"}
    # After a time in which none has a host it is the same.
    none = text + "".join(egress_service("plain", name, nodeSelector=on("node9")) for name in ("web", "also"))
    without = stored(none, second, hosts=SHARED)
    assert build_plan(without).get("egress_services", {}) == {}
    assert stored(none, without, hosts=SHARED).objects == without.objects
    assert build_plan(stored(both, without, hosts=SHARED))["egress_services"]["default"].keys() == {"plain/web"}
    assert "egressService" not in stored(text, fourth, hosts=SHARED).objects["Workload/plain/b"].status
    assert "egressService" not in stored(TEXT, fourth, hosts=SHARED).objects["Workload/plain/b"].status


def test_endpoints_that_are_not_ready_keep_their_address():
    text = TEXT.replace("spec: {node: node3}", "spec: {node: node3, ready: false}") + service("plain")
    plan = build_plan(stored(text + egress_service("plain"), hosts=SHARED))
    assert plan["egress_services"]["default"]["plain/web"]["workloads"] == ["plain/b", "plain/c"]


def test_the_network_is_on_the_host():
    text = TEXT + service("red", more="type: LoadBalancer, allocateLoadBalancerNodePorts: false")
    after = stored(text + egress_service("red", nodeSelector=on("node3")), hosts=SHARED)
    assert build_plan(after)["networks"]["red_net"]["nodes"] == ["node2", "node3"]


def test_a_drained_host_is_left():
    text = TEXT + service("plain") + egress_service("plain")
    before = stored(text, hosts=SHARED, settings={"layer2_topology": "gateway-router"})
    drained, _moves, blockers = layer2_steps.drain(before, [host(before)], "2.0")
    assert not blockers
    assert host(drained) not in ("", host(before))
    assert host(drained) in condition(drained.objects["EgressService/plain/web"], "Assigned")["message"]


def test_removed_leaves_nothing():
    text = TEXT + service("red") + service("plain")
    before = stored(text + egress_service("red") + egress_service("plain"), hosts=SHARED)
    after = stored(text, before, hosts=SHARED)
    assert "egress_services" not in build_plan(after)
    assert "egressip-mark" not in after.allocations
    assert not [key for key in after.objects if key.startswith("EgressService/")]


def test_addresses_of_one_group_have_one_host_or_none():
    both = [Candidate("a", ("192.0.2.0/24",)), Candidate("b", ("192.0.2.0/24", "2001:db8::/64"))]
    wanted = {"192.0.2.1": None, "192.0.2.2": None, "2001:db8::2": None}
    group = [["192.0.2.2", "2001:db8::2"]]
    assert assigned_hosts(wanted, both, {}, group) == {"192.0.2.1": "a", "192.0.2.2": "b", "2001:db8::2": "b"}
    assert assigned_hosts(wanted, both[:1], {}, group) == {"192.0.2.1": "a"}
    # One that is where it may be keeps its place, and the others follow.
    three = [*both, Candidate("c", ("192.0.2.0/24", "2001:db8::/64"))]
    before = {"192.0.2.2": "a", "2001:db8::2": "c"}
    assert assigned_hosts(wanted, three, before, group) == {"192.0.2.1": "a", "192.0.2.2": "c", "2001:db8::2": "c"}


def test_an_address_that_has_not_left_its_host_takes_no_others_there():
    three = [Candidate(name, ("192.0.2.0/24", "2001:db8::/64")) for name in "abc"]
    wanted: dict = {"192.0.2.1": ["b"], "192.0.2.2": ["b"], "2001:db8::2": ["b"]}
    group = [["192.0.2.2", "2001:db8::2"]]
    before = dict.fromkeys(wanted, "b")
    for kept in ({"192.0.2.2": "a"}, {"2001:db8::2": "gone"}, {"192.0.2.2": "a", "2001:db8::2": "c"}):
        assert assigned_hosts(wanted, three, before, group, kept) == {**before, **kept}
    # What had no host has none, and is not brought to that of the group.
    assert assigned_hosts(wanted, three, {}, group, {"2001:db8::2": "a"}) == {"192.0.2.1": "b", "2001:db8::2": "a"}
    assert assigned_hosts(wanted, three, {}, group) == before


def test_an_egress_service_with_addresses_on_two_hosts_is_in_effect_once_they_are_on_one():
    text = TEXT + service("plain") + egress_service("plain")
    first = stored(text, hosts=SHARED)
    held = first.objects["Service/plain/web"].status["announcers"]
    (holder,) = set(held.values())
    assert len(held) == 2
    other = next(name for name in SHARED if name != holder)
    update_holders(first, first, LATE, kept={next(iter(held)): other})
    assert set(first.objects["Service/plain/web"].status["announcers"].values()) == {holder, other}
    assert "egress_services" not in build_plan(first)
    (again,) = build_plan(stored(text, first, hosts=SHARED))["egress_services"]["default"].values()
    assert again["host"] in (holder, other)


@pytest.mark.parametrize("hosts", [SHARED, LOCAL], ids=["shared", "local"])
def test_answers_of_a_service_without_node_ports_leave_as_others_with_the_policy_local(hosts):
    """In local gateway mode they come from the number that the host has for the Service."""
    more = "type: LoadBalancer, externalTrafficPolicy: Local, allocateLoadBalancerNodePorts: false"
    state = stored(TEXT + service("plain", more=more) + egress_service("plain", network="7"), hosts=hosts)
    (entry,) = build_plan(state)["egress_services"]["default"].values()
    assert entry["node_ports"] == ([1] if hosts is LOCAL else [])


def egress_ip(name: str, *addresses: str) -> str:
    spec = {"egressIPs": list(addresses), "namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}
    document = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP", "metadata": {"name": name}, "spec": spec}
    return f"---\n{json.dumps(document)}\n"


def test_an_egress_ip_does_not_count_workloads_that_leave_by_an_egress_service():
    hosts = labelled(SHARED)
    only_ipv4 = service("plain").replace("PreferDualStack", "SingleStack")

    def of(snapshot, name: str) -> tuple[str, str]:
        found = condition(snapshot.objects[f"EgressIP/{name}"], "Assigned")
        return found["reason"], found["message"]

    text, leave = TEXT + egress_ip("out", "192.0.2.100"), "workloads that leave with these addresses: "
    assert of(stored(text + service("plain"), hosts=hosts), "out") == ("Assigned", f"{leave}3")
    instead = f"{leave}1; by an EgressService instead: 2, plain/b by plain/web, plain/c by plain/web"
    first = stored(text + only_ipv4 + egress_service("plain"), hosts=hosts)
    assert of(first, "out") == ("Assigned", instead)
    # In a family in which the Service has no address they leave with the EgressIP.
    both = egress_ip("both", "192.0.2.100", "2001:db8::100")
    assert of(stored(TEXT + both + only_ipv4 + egress_service("plain"), hosts=hosts), "both")[1] == f"{leave}3"
    found = of(stored(TEXT + both + service("plain") + egress_service("plain"), hosts=hosts), "both")
    assert found[1].startswith(f"{leave}1; by an EgressService")
    # An EgressIP that has none of them does not say that they leave with another one.
    two = (
        TEXT.replace(web("red", "a", "node2"), "") + egress_ip("also", "192.0.2.101") + egress_ip("out", "192.0.2.100")
    )
    found = of(stored(two + service("plain") + egress_service("plain"), hosts=hosts), "out")
    assert found == ("Assigned", instead.replace("1; by", "0; by"))
    # Without a host of the EgressService they leave with the EgressIP.
    nowhere = egress_service("plain", nodeSelector=on("node9"))
    assert of(stored(text + service("plain") + nowhere, first, hosts=hosts), "out") == ("Assigned", f"{leave}3")
