# SPDX-License-Identifier: Apache-2.0
"""What verify expects of packets to Services from beyond their network."""

from __future__ import annotations

import itertools
import socket
import time

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    external_flows,
    left_out,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_flow import (
    ENTRANCES,
    EXTERNAL_TO_ENTRANCE,
    HOST_TO_ENTRANCE,
    TO_CLUSTER_IP,
    WORKLOAD_TO_ENTRANCE,
    ExternalFlow,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.datagram import (
    PORT,
    SIZE,
    answer,
    read_question,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.exchange import Exchange, Question
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.listening import Place
from tests.pipeline import labelled, layer2, namespace, plan_of, with_gateways, workload

EXTERNAL = {"external": ["192.0.2.20", "2001:db8::20"]}
# Who asks by the provider network; `test_node_port_expectations.py` has other addresses of nodes.
BY_PROVIDER = EXTERNAL_TO_ENTRANCE, HOST_TO_ENTRANCE, WORKLOAD_TO_ENTRANCE
TEXT = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + "".join(workload("red", f"web{one}", f"node{one}").replace(
        "namespace: red}", "namespace: red, labels: {app: web}}") for one in (1, 2))
    + "---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {name: pool}\n"
    "spec: {subnets: [192.0.2.200/32]}\n"
    "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\n"
    "spec: {type: LoadBalancer, selector: {app: web}, ports: [{protocol: UDP, port: 7654, nodePort: 30000}]MORE}\n"
)  # fmt: skip


def flows(more: str = "", text: str = TEXT) -> dict[tuple[str, str, str], tuple]:
    plan = plan_of(text.replace("MORE", more), hosts=with_gateways("shared"))
    return {
        (one.kind, one.through, one.address): (one.reach, one.responders, one.seen_as)
        for one in external_flows(plan, EXTERNAL)
        if one.kind in (EXTERNAL_TO_ENTRANCE, HOST_TO_ENTRANCE)
    }


BOTH = ("red/web1", "red/web2")


def test_all_endpoints_may_answer():
    found = flows()
    for node in (1, 2, 3):
        assert found[EXTERNAL_TO_ENTRANCE, f"node{node}", f"192.0.2.1{node}"] == (True, BOTH, "")
        assert found[HOST_TO_ENTRANCE, f"node{node}", "192.0.2.200"] == (True, BOTH, "")
    holders = [key[1] for key in found if key[0] == EXTERNAL_TO_ENTRANCE and key[2] == "192.0.2.200"]
    assert len(holders) == 1


def test_with_the_policy_local_the_endpoints_of_the_node_answer_and_see_the_client():
    found = flows(", externalTrafficPolicy: Local")
    for node in (1, 2):
        expected = (True, (f"red/web{node}",), "192.0.2.20")
        assert found[EXTERNAL_TO_ENTRANCE, f"node{node}", f"192.0.2.1{node}"] == expected
    # The network is on nodes with endpoints only.
    assert (EXTERNAL_TO_ENTRANCE, "node3", "192.0.2.13") not in found
    assert found[HOST_TO_ENTRANCE, "node1", "192.0.2.11"] == (True, BOTH, "")


@pytest.mark.parametrize(("ranges", "reach"), [("192.0.2.0/25", True), ("198.51.100.0/24", False)])
def test_source_ranges_are_for_load_balancer_addresses(ranges, reach):
    found = flows(f", loadBalancerSourceRanges: [{ranges}]")
    assert {value[0] for key, value in found.items() if key[2] == "192.0.2.200" and "external" in key[0]} == {reach}
    assert found[EXTERNAL_TO_ENTRANCE, "node1", "192.0.2.11"][0]


def test_ports_that_lead_elsewhere_are_not_tested():
    assert flows(text=TEXT.replace("port: 7654", "port: 53")) == {}


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_a_service_without_endpoints_refuses_whatever_its_port(protocol):
    text = CLIENTS.replace("protocol: UDP, port: 7654", f"protocol: {protocol}, port: 80")
    text = text.replace("selector: {app: web}", "selector: {app: none}").replace("MORE", "")
    found = [one for one in external_flows(plan_of(text, hosts=with_gateways("shared")), EXTERNAL) if one.protocol]
    entrances = [one for one in found if one.kind in ENTRANCES]
    assert {one.kind for one in entrances} == set(ENTRANCES)
    assert {(one.reach, one.refused, one.responders, one.seen_as) for one in entrances} == {(True, True, (), "")}


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_a_port_without_endpoints_beside_one_with_some_refuses(protocol):
    more = "{name: a, protocol: UDP, port: 7654, nodePort: 30000}, "
    more += f"{{name: b, protocol: {protocol}, port: 80, nodePort: 30001, targetPort: none}}"
    text = CLIENTS.replace("{protocol: UDP, port: 7654, nodePort: 30000}", more).replace("MORE", "")
    found = [one for one in external_flows(plan_of(text, hosts=with_gateways("shared")), EXTERNAL)
             if one.kind in ENTRANCES and not one.way]  # fmt: skip
    assert {(one.kind, one.port) for one in found} == set(itertools.product(BY_PROVIDER, (7654, 80, 30000, 30001)))
    for one in found:
        expected = (True, True, ()) if one.port in (80, 30001) else (True, False, BOTH)
        assert (one.reach, one.refused, one.responders) == expected


def test_a_family_without_endpoints_refuses():
    text = TEXT.replace("selector: {app: web}, ", "ipFamilyPolicy: RequireDualStack, ").replace("MORE", "") + (
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        "metadata: {name: one, namespace: red, labels: {kubernetes.io/service-name: web}}\naddressType: IPv6\n"
        "ports: [{protocol: UDP, port: 7654}]\nendpoints: [{addresses: ['fd00:10::200']}]\n"
    )
    found = external_flows(plan_of(text, hosts=with_gateways("shared")), EXTERNAL)
    # No workload has the endpoint's address, so what it answers is unknown.
    assert {(one.family, one.refused) for one in found if one.kind in ENTRANCES} == {(4, True)}


def test_a_family_that_the_network_has_not_is_not_tested():
    """No gateway router of the network has an address to answer with."""
    text = TEXT.replace("selector: {app: web}", "ipFamilyPolicy: RequireDualStack").replace("MORE", "")
    text = text.replace(", 'fd00:10::/64'", "")
    found = external_flows(plan_of(text, hosts=with_gateways("shared")), EXTERNAL)
    assert {one.family for one in found if one.kind in ENTRANCES} == {4}


def test_with_the_policy_local_a_node_without_endpoint_refuses():
    text = TEXT.replace("MORE", ", externalTrafficPolicy: Local") + workload("red", "c", "node3")
    plan = plan_of(text, hosts=with_gateways("shared"))
    found = {one.through: (one.reach, one.refused) for one in external_flows(plan, EXTERNAL)
             if one.kind == EXTERNAL_TO_ENTRANCE and one.port == 30000}  # fmt: skip
    assert found == {"node1": (True, False), "node2": (True, False), "node3": (True, True)}


def test_source_ranges_of_a_service_without_endpoints_are_silent():
    text = TEXT.replace("selector: {app: web}", "selector: {app: none}")
    found = flows(", loadBalancerSourceRanges: [198.51.100.0/24]", text)
    assert {value[0] for key, value in found.items() if key[0] == EXTERNAL_TO_ENTRANCE and key[2] == "192.0.2.200"} == {
        False
    }


@pytest.mark.parametrize(("workload_name", "is_answer"), [("red/web1", True), ("blue/other", False)])
def test_only_an_endpoint_s_answer_counts(workload_name, is_answer):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.bind(("127.0.0.1", 0))
        row = ExternalFlow(
            HOST_TO_ENTRANCE, "node1", "node1", "red/web", "", "", 4, "127.0.0.1", True, "", protocol="UDP",
            port=endpoint.getsockname()[1], through="node1", responders=BOTH,
        )  # fmt: skip
        with Exchange([Question(row, [0], row)], {"node1": Place()}, PORT) as exchange:
            exchange.ask(0)
            data, sender = endpoint.recvfrom(SIZE)
            asked = read_question(data)
            # Packets of the sender to workloads themselves are expected not to arrive.
            assert asked["source"] != "node1"
            endpoint.sendto(answer(asked["ask"], workload_name, "red_net", sender[0]), sender)
            replies = exchange.receive(time.monotonic() + 10)
            assert bool(replies) == is_answer
            if is_answer:
                assert exchange.asked[0].answers[("red/web", "")][1] == "127.0.0.1"


CLIENTS = TEXT + namespace("blue") + layer2("blue", "net", "10.0.0.0/24") + workload("blue", "b", "node3")


def of_workloads(more: str = "", text: str = CLIENTS, **facts) -> dict[tuple[str, str], tuple]:
    plan = plan_of(text.replace("MORE", more), hosts=with_gateways("shared", **facts))
    asked = [one for one in external_flows(plan, EXTERNAL) if one.kind == WORKLOAD_TO_ENTRANCE and not one.way]
    found = {(one.source.partition("/")[0], one.address): (one.reach, one.responders, one.through) for one in asked}
    assert len(found) == len(asked)
    return found


def test_one_workload_of_the_network_and_one_of_another_are_chosen():
    more = CLIENTS + workload("red", "c", "node3") + workload("blue", "c", "node1")
    found = of_workloads(", externalIPs: [198.51.100.9]", more)
    assert {address for name, address in found if name == "red"} >= {"192.0.2.200", "198.51.100.9"}
    assert {(name, len([one for one in found if one[0] == name])) for name, _address in found} == {
        ("red", 3), ("blue", 3)
    }  # fmt: skip
    assert {value[:2] for value in found.values()} == {(True, BOTH)}


def test_without_a_transit_router_replies_of_other_nodes_are_not_tested_and_a_line_says_so():
    """They go to the next hop; those of the node's own endpoints do not, as with the policy Local."""

    def asked(more: str = "") -> set[str]:
        plan = plan_of(CLIENTS.replace("MORE", more), hosts=with_gateways("shared"))
        for node in plan["nodes"].values():
            node["layer2_topology_version"] = "1.0"
        assert [line for line in left_out(plan, EXTERNAL) if WORKLOAD_TO_ENTRANCE in line] == [
            "workload to entrance: Services of Layer2 networks with endpoints on other nodes are not tested from "
            "other networks by way of node1, node2, node3, which have no transit router: replies go to the next hop, "
            "which has to forward them; node ports of their own node are not tested from workloads of Layer2 networks "
            "there, whose gateway router drops what is for the node's address"
        ]
        flows = [one for one in external_flows(plan, EXTERNAL) if one.kind == WORKLOAD_TO_ENTRANCE and not one.way]
        return {one.address for one in flows if one.source == "blue/b"}

    # Of the node that blue/b is on the gateway router drops it.
    assert "192.0.2.13" not in asked(", externalTrafficPolicy: Local")
    assert asked() == set()
    assert "192.0.2.200" in asked(", externalTrafficPolicy: Local")


def test_another_host_follows_the_policy_local_and_the_own_one_does_not():
    local = ", externalTrafficPolicy: Local, externalIPs: [198.51.100.9]"
    # The network is on nodes with endpoints only: blue/b asks by one of these, which accepts no external address of it.
    found = of_workloads(local)
    reach, responders, _through = found["blue", "192.0.2.200"]
    assert reach and len(responders) == 1
    assert ("blue", "198.51.100.9") not in found
    assert {value[:2] for key, value in found.items() if key[0] == "red"} == {(True, BOTH)}
    here = of_workloads(local, CLIENTS + workload("red", "c", "node3"))
    assert here["blue", "198.51.100.9"] == (True, BOTH, "node3")
    assert here["blue", "192.0.2.13"] == (True, BOTH, "node3")


@pytest.mark.parametrize(("ranges", "reach"), [("192.0.2.0/25", True), ("198.51.100.0/24", False)])
def test_source_ranges_are_about_the_node_of_a_workload_of_another_network(ranges, reach):
    found = of_workloads(f", loadBalancerSourceRanges: [{ranges}]")
    assert found["blue", "192.0.2.200"][0] is reach
    assert found["red", "192.0.2.200"][0]


def test_without_vrfs_node_ports_of_another_host_are_asked_and_a_line_says_so():
    found = of_workloads(vrf=False)
    assert ("blue", "192.0.2.13") not in found
    assert {key[1] for key in found if key[0] == "blue"} & {"192.0.2.11", "192.0.2.12"}
    plan = plan_of(CLIENTS.replace("MORE", ""), hosts=with_gateways("shared", vrf=False))
    assert [line for line in left_out(plan, EXTERNAL) if line.startswith(f"{WORKLOAD_TO_ENTRANCE}: ")] == [
        "workload to entrance: node ports of their own node are not tested from other networks on node1, node2, node3: "
        "these are not reached without VRFs"
    ]
    assert not [line for line in left_out(plan_of(CLIENTS.replace("MORE", ""), hosts=with_gateways("shared")), EXTERNAL)
                if WORKLOAD_TO_ENTRANCE in line]  # fmt: skip


def to_cluster_ip(server: socket.socket, protocol: str, reach: bool = True, **more) -> ExternalFlow:
    port = server.getsockname()[1]
    return ExternalFlow(
        TO_CLUSTER_IP, "node1", "red/a", "red/web", "red/a", "", 4, "127.0.0.1", reach, "", protocol=protocol,
        port=port, **more,
    )  # fmt: skip


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_service_without_endpoints_has_to_refuse(is_refused):
    """A connection that is accepted is no answer then."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if not is_refused:
            server.listen()
        row = to_cluster_ip(server, "TCP", refused=True)
        with Exchange([Question(row, [0], row)], {"red/a": Place()}, PORT) as exchange:
            exchange.ask(0)
            assert bool(exchange.receive(time.monotonic() + 10)) is is_refused


@pytest.mark.parametrize(
    ("answerer", "refused", "is_answer"),
    [("red/web1", False, True), ("blue/other", False, False), ("", False, False), ("", True, True),
     ("red/web1", True, False)],
)  # fmt: skip
def test_a_datagram_to_a_service_is_answered_by_an_endpoint_or_refused_without_any(answerer, refused, is_answer):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.bind(("127.0.0.1", 0))
        row = to_cluster_ip(endpoint, "UDP", responders=BOTH, refused=refused)
        if not answerer:
            endpoint.close()
        with Exchange([Question(row, [0], row)], {"red/a": Place()}, PORT) as exchange:
            exchange.ask(0)
            if answerer:
                data, sender = endpoint.recvfrom(SIZE)
                endpoint.sendto(answer(read_question(data)["ask"], answerer, "red_net", sender[0]), sender)
            assert bool(exchange.receive(time.monotonic() + 10)) is is_answer


@pytest.mark.parametrize("answerer", ["blue/other", ""])
def test_whatever_comes_from_a_service_of_another_network_is_an_answer(answerer):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.bind(("127.0.0.1", 0))
        row = to_cluster_ip(endpoint, "UDP", reach=False)
        if not answerer:
            endpoint.close()
        with Exchange([Question(row, [0])], {"red/a": Place()}, PORT) as exchange:
            exchange.ask(0)
            if answerer:
                data, sender = endpoint.recvfrom(SIZE)
                endpoint.sendto(answer(read_question(data)["ask"], answerer, "blue_net", sender[0]), sender)
            exchange.receive(time.monotonic() + 10)
            assert ("red/web", "") in exchange.asked[0].answers


def test_services_without_ready_endpoints_are_expected_to_refuse():
    service = (
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: NAME, namespace: red}\nspec: {SPECports: [{port: 80}]}\n"
    )
    text = CLIENTS.replace("MORE", "") + "".join(
        service.replace("NAME", name).replace("SPEC", spec)
        for name, spec in (("none", ""), ("lost", "type: LoadBalancer, "), ("some", "selector: {app: web}, "))
    )
    plan = plan_of(text, hosts=with_gateways("shared"))
    found = {
        (one.workload.partition("/")[0], one.target): (one.reach, one.refused)
        for one in external_flows(plan, EXTERNAL)
        if one.kind == TO_CLUSTER_IP
    }
    assert {key[1]: value for key, value in found.items() if key[0] == "red"} == {
        "red/web UDP 7654": (True, False),
        "red/none TCP 80": (True, True), "red/lost TCP 80": (True, True), "red/some TCP 80": (True, False),
    }  # fmt: skip
    # From another network they must not answer at all.
    assert {value for key, value in found.items() if key[0] == "blue"} == {(False, False)}


@pytest.mark.parametrize("port", [7654, 53])
def test_udp_ports_that_lead_elsewhere_are_asked_from_other_networks_only(port):
    text = CLIENTS.replace("MORE", "").replace("port: 7654", f"port: {port}")
    found = {
        (one.workload.partition("/")[0], one.target, one.reach, one.responders)
        for one in external_flows(plan_of(text, hosts=with_gateways("shared")), EXTERNAL)
        if one.kind == TO_CLUSTER_IP
    }
    own = {("red", "red/web UDP 7654", True, BOTH)} if port == PORT else set()
    other = ("blue", f"red/web UDP {port}", False, BOTH if port == PORT else ())
    assert found == own | {other}


@pytest.mark.parametrize("policy, own, foreign", [
    ("externalTrafficPolicy: Local", {BOTH}, BOTH),
    # Only the endpoints on the workload's own host answer it, none refuse.
    ("internalTrafficPolicy: Local", {("red/web1",), ("red/web2",), ()}, BOTH),
])  # fmt: skip
def test_cluster_ips_of_services_with_a_policy_local_are_asked(policy, own, foreign):
    text = CLIENTS.replace("MORE", f", {policy}") + workload("red", "far", "node3")
    plan = plan_of(text, hosts=with_gateways("shared"))
    asked = [one for one in external_flows(plan, EXTERNAL, None, Selection(ALL)) if one.kind == TO_CLUSTER_IP]
    from_red = [one for one in asked if one.source.startswith("red/")]
    assert {one.source for one in from_red} == {"red/web1", "red/web2", "red/far"}
    assert {one.responders for one in from_red} == own
    assert all(one.reach and one.refused == (not one.responders) for one in from_red)
    assert [(one.reach, one.responders) for one in asked if one.source == "blue/b"] == [(False, foreign)]


def test_services_with_endpoints_beyond_their_network_are_named_as_untested():
    text = CLIENTS.replace("MORE", "").replace("selector: {app: web}, ", "") + (
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        "metadata: {name: web-1, namespace: red, labels: {kubernetes.io/service-name: web}}\n"
        "addressType: IPv4\nports: [{name: '', protocol: UDP, port: 7654}]\n"
        "endpoints: [{addresses: [198.51.100.7]}]\n"
    )
    plan = plan_of(text, hosts=with_gateways("shared"))
    assert not [one for one in external_flows(plan, EXTERNAL) if one.kind == TO_CLUSTER_IP]
    line = "workload to cluster IP: not tested for red/web of red_net, which have endpoints beyond their network"
    assert line in left_out(plan, EXTERNAL)


def test_each_external_address_of_a_service_is_asked():
    text = TEXT.replace("MORE", ", externalIPs: [192.0.2.211, 192.0.2.212]")
    found = {
        one.address
        for one in external_flows(plan_of(text, hosts=with_gateways("shared")), EXTERNAL)
        if one.kind == HOST_TO_ENTRANCE
    }
    assert {"192.0.2.211", "192.0.2.212"} <= found


EGRESS_IP = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: blue}\n"
    "spec: {egressIPs: [192.0.2.90], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: blue}}}\n"
)


@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_a_workload_with_an_egress_ip_asks_load_balancer_addresses(policy):
    hosts = labelled(with_gateways("shared"))
    plan = plan_of(CLIENTS.replace("MORE", f", externalTrafficPolicy: {policy}") + EGRESS_IP, hosts=hosts)
    (holder,) = [one["node"] for one in plan["egress_ips"]["blue"]["addresses"]]
    (held,) = plan["services"]["red_net"]["red/web"]["external"]["load_balancer"]
    asked = [one for one in external_flows(plan, EXTERNAL) if one.kind == WORKLOAD_TO_ENTRANCE]
    (found,) = [one for one in asked if one.source == "blue/b"]
    local = tuple(name for name in BOTH if name.endswith(held["node"][-1]))
    expected = BOTH if policy == "Cluster" or holder == held["node"] else local
    assert (found.address, found.reach, found.responders) == ("192.0.2.200", True, expected)


def test_source_ranges_are_not_tested_with_an_egress_ip():
    more = ", loadBalancerSourceRanges: [192.0.2.0/24]"
    plan = plan_of(CLIENTS.replace("MORE", more) + EGRESS_IP, hosts=labelled(with_gateways("shared")))
    asked = [one for one in external_flows(plan, EXTERNAL) if one.kind == WORKLOAD_TO_ENTRANCE]
    assert {one.source.partition("/")[0] for one in asked} == {"red"}
