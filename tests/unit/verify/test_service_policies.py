# SPDX-License-Identifier: Apache-2.0
"""What verify expects of packets to Services whose endpoints have policies, and what it leaves out.

That endpoints see these source addresses is tested with packets in tests/live/gateway/test_policy_sources.py.
"""

from __future__ import annotations

import json
import socket
import time

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate
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
    sender_of,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.external_evaluation import evaluated
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.exchange import Exchange, Question
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.listening import Place
from tests.pipeline import labelled, plan_of, with_gateways, workload
from tests.unit.verify.test_entrance_expectations import BOTH, CLIENTS, EGRESS_IP, EXTERNAL

TCP = CLIENTS.replace("protocol: UDP, port: 7654", "protocol: TCP, port: 80, targetPort: 8080")
LOCAL = ", externalTrafficPolicy: Local, externalIPs: [198.51.100.9]"
CLIENT, JOIN = ["192.0.2.20/32", "2001:db8::20/128"], ["100.65.0.0/16", "fd99::/64"]
WEB = {"matchLabels": {"app": "web"}}


def policy(peers: list[dict], name: str = "p", where: str = "red", **spec) -> str:
    """A NetworkPolicy that permits what these peers send to the workloads that it selects, by default those of web."""
    rules = {"podSelector": WEB, "ingress": [{"from": peers}] if peers else [], **spec}
    metadata = {"name": name, "namespace": where}
    document = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": rules}
    return f"---\n{json.dumps(document)}\n"


def blocks(cidrs: list[str]) -> list[dict]:
    return [{"ipBlock": {"cidr": one}} for one in cidrs]


def of_cluster(kind: str, rules: dict, name: str = "default") -> str:
    document = {
        "apiVersion": "policy.networking.k8s.io/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": {"subject": {"namespaces": {}}, **rules},
    }  # fmt: skip
    return f"---\n{json.dumps(document)}\n"


def plan(text: str = CLIENTS, more: str = "", extra: str = "", mode: str = "shared", **facts) -> dict:
    return plan_of(text.replace("MORE", more) + extra, hosts=with_gateways(mode, **facts))


def services(made: dict, kinds: tuple[str, ...] = ENTRANCES) -> list[ExternalFlow]:
    """What verify asks by the provider network, where `test_node_port_expectations.py` has other addresses."""
    return [one for one in external_flows(made, EXTERNAL) if one.kind in kinds and not one.way]


def results(made: dict, kind: str) -> set[tuple[str, bool]]:
    """By which node packets of a kind are sent, and whether they are answered."""
    return {(one.through, one.reach) for one in services(made, (kind,))}


def lines(made: dict) -> list[str]:
    about_addresses = "node ports are not tested at addresses"
    return [line for line in left_out(made, EXTERNAL) if "not tested" in line and about_addresses not in line]


@pytest.mark.parametrize("kind", ["AdminNetworkPolicy", "BaselineAdminNetworkPolicy"])
@pytest.mark.parametrize("text", [CLIENTS, TCP])
def test_policies_of_all_namespaces_that_match_no_workload_change_nothing(kind, text):
    absent = [{"namespaces": {"matchLabels": {"is": "absent"}}}]
    rules = {
        direction: [{"action": "Deny", side: absent}] for direction, side in (("ingress", "from"), ("egress", "to"))
    }
    rules |= {"priority": 5} if kind == "AdminNetworkPolicy" else {}
    made = plan(text, extra=of_cluster(kind, rules))
    without = plan(text)
    seed = Selection(seed="any")

    def asked(of: dict) -> list[ExternalFlow]:
        # Endpoints, to which policies apply then, do not ask for themselves.
        found = [one for one in external_flows(of, EXTERNAL, None, seed) if one.kind in ENTRANCES]
        return [one for one in found if not one.source.startswith("red/")]

    assert asked(made) == asked(without) != []
    assert {one.kind for one in asked(made)} == set(ENTRANCES)


@pytest.mark.parametrize("mode", ["shared", "local"])
@pytest.mark.parametrize("more", ["", LOCAL])
def test_nothing_reaches_endpoints_that_policies_close(mode, more):
    extra = policy([]) + workload("red", "c", "node3")
    made = plan(more=more, extra=extra, mode=mode)
    found = [one for one in external_flows(made, EXTERNAL) if one.kind in (*ENTRANCES, TO_CLUSTER_IP)]
    assert {one.kind for one in found} == {*ENTRANCES, TO_CLUSTER_IP}
    own = [one for one in found if one.responders and not (one.kind == TO_CLUSTER_IP and one.source == "blue/b")]
    assert {(one.reach, one.denied, one.refused, one.seen_as) for one in own} == {(False, True, False, "")}
    assert all("policies permit none of its endpoints; the rules of NetworkPolicy red/p for red/web" in one.reason
               for one in own)  # fmt: skip
    # A node without an endpoint refuses by itself, whatever policies say.
    assert {one.through for one in found if one.reach} == ({"node3"} if more else set())
    assert all(one.refused for one in found if one.reach)


def test_policies_see_the_gateway_router_with_the_policy_cluster():
    for cidrs, reach in ((CLIENT, False), (JOIN, True)):
        made = plan(extra=policy(blocks(cidrs)))
        for kind in (EXTERNAL_TO_ENTRANCE, HOST_TO_ENTRANCE):
            assert results(made, kind) == {(f"node{one}", reach) for one in (1, 2, 3)}
        others = [one for one in services(made, (WORKLOAD_TO_ENTRANCE,)) if one.source == "blue/b"]
        assert {one.reach for one in others} == {reach}


def test_policies_see_the_client_with_the_policy_local():
    for cidrs, reach in ((CLIENT, True), (JOIN, False)):
        made = plan(more=LOCAL, extra=policy(blocks(cidrs)))
        assert results(made, EXTERNAL_TO_ENTRANCE) == {("node1", reach), ("node2", reach)}
        assert {one.seen_as for one in services(made, (EXTERNAL_TO_ENTRANCE,))} <= {*EXTERNAL["external"], ""}
        # The host leads to all endpoints through the gateway router.
        assert {result for _node, result in results(made, HOST_TO_ENTRANCE)} == {not reach}
    # blue/b is on a node without the network: other nodes see the address of its node.
    for cidr, reach in (("192.0.2.13/32", True), ("192.0.2.11/32", False)):
        made = plan(more=LOCAL, extra=policy(blocks([cidr])))
        asked = [one for one in services(made, (WORKLOAD_TO_ENTRANCE,)) if one.source == "blue/b" and one.family == 4]
        assert {one.reach for one in asked} == {reach}


@pytest.mark.parametrize(("more", "cidr", "reach"), [
    ("", "100.65.0.0/16", True), ("", "192.0.2.90/32", False),
    (LOCAL, "192.0.2.90/32", True), (LOCAL, "192.0.2.0/26", False),
])  # fmt: skip
def test_policies_see_the_egress_ip_of_a_client_with_the_policy_local(more, cidr, reach):
    hosts = labelled(with_gateways("shared"))
    text = CLIENTS.replace("MORE", more) + EGRESS_IP
    (held,) = plan_of(text, hosts=hosts)["services"]["red_net"]["red/web"]["external"]["load_balancer"]
    for name, host in hosts.items():
        host["labels"] = {} if name == held["node"] else host["labels"]
    made = plan_of(text + policy(blocks([cidr])), hosts=hosts)
    [one] = [one for one in services(made, (WORKLOAD_TO_ENTRANCE,)) if one.source == "blue/b"]
    assert (one.address, one.reach) == ("192.0.2.200", reach)


def test_policies_of_some_endpoints_are_evaluated_by_node_or_listed():
    one = policy([], podSelector={"matchLabels": {"only": "one"}})
    text = CLIENTS.replace("name: web1, namespace: red, labels: {app: web}",
                           "name: web1, namespace: red, labels: {app: web, only: one}")  # fmt: skip
    text += workload("red", "c", "node3")
    for more in ("", LOCAL):
        made = plan(text, more, one)
        expected = {("node1", False), ("node2", True), ("node3", True)} if more else set()
        assert results(made, EXTERNAL_TO_ENTRANCE) == expected
        assert results(made, HOST_TO_ENTRANCE) == set()
        kinds = set(lines(made)[0].partition(": ")[0].split(", "))
        assert kinds >= {HOST_TO_ENTRANCE, WORKLOAD_TO_ENTRANCE, TO_CLUSTER_IP}
        assert (EXTERNAL_TO_ENTRANCE in kinds) == (not more)
        assert lines(made) == [
            f"{lines(made)[0].partition(': ')[0]}: ports are not tested from clients to which policies permit some "
            "endpoints only: red/web UDP 7654 of red_net"
        ]


def test_workloads_of_the_network_are_peers_by_their_labels():
    """The client that is chosen is no endpoint, to which its own connection may lead."""
    both = workload("red", "c", "node3") + workload("red", "d", "node3")
    for labels, reach in (({}, True), ({"matchLabels": {"app": "web"}}, False)):
        for seed in range(10):
            made = plan(extra=both + policy([{"podSelector": labels}]))
            own = [one for one in external_flows(made, EXTERNAL, None, Selection(seed=str(seed)))
                   if one.kind == WORKLOAD_TO_ENTRANCE and one.source.startswith("red/")]  # fmt: skip
            assert {one.source for one in own} <= {"red/c", "red/d"}
            assert {one.reach for one in own} == {reach}


def test_workloads_under_policies_for_what_they_send_ask_where_there_are_no_others():
    node = [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    out = policy([], where="blue", podSelector={}, policyTypes=["Egress"], egress=[{"to": node}])
    more = ", externalIPs: [198.51.100.9]"
    found = [one for one in services(plan(more=more, extra=out)) if one.source == "blue/b"]
    assert {one.address: one.reach for one in found} == {
        "192.0.2.13": True, "192.0.2.200": True, "198.51.100.9": False,
    }  # fmt: skip
    # With another network whose workloads may send everything, these ask.
    other = CLIENTS[CLIENTS.index("---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: blue") :].replace(
        "blue", "free"
    )
    assert not [one for one in services(plan(more=more, extra=out + other)) if one.source == "blue/b"]


def machine(text: str) -> str:
    return text.replace("spec: {node: node1}", "spec: {node: node1, kind: vm}", 1)


@pytest.mark.parametrize("text", [CLIENTS, TCP])
def test_ports_that_lead_to_virtual_machines_are_listed(text):
    made = plan(machine(text))
    assert not [one for one in services(made, (*ENTRANCES, TO_CLUSTER_IP)) if one.source != "blue/b"]
    port = "TCP 80" if text == TCP else "UDP 7654"
    [line] = lines(made)
    assert line.endswith(f": ports that lead to virtual machines are not tested: red/web {port} of red_net")
    assert set(line.partition(": ")[0].split(", ")) == {*ENTRANCES, TO_CLUSTER_IP}
    # With the policy Local the endpoints of other nodes remain, for packets of external hosts.
    made = plan(machine(text), LOCAL)
    assert results(made, EXTERNAL_TO_ENTRANCE) == {("node2", True)}
    assert {one.responders for one in services(made, (EXTERNAL_TO_ENTRANCE,))} == {("red/web2",)}
    assert any("virtual machines" in line for line in lines(made))


@pytest.mark.parametrize(("text", "reason"), [
    (CLIENTS.replace("port: 7654", "port: 53"), "UDP ports that lead elsewhere than to port 7654 are not tested"),
    (CLIENTS.replace("protocol: UDP", "protocol: SCTP"), "SCTP ports are not tested"),
    (CLIENTS.replace("selector: {app: web}, ", ""), "ports that lead to others than workloads of their network are"),
])  # fmt: skip
def test_other_ports_that_are_not_tested_are_listed(text, reason):
    slice_ = (
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        "metadata: {name: one, namespace: red, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\n"
        "ports: [{protocol: UDP, port: 7654}]\nendpoints: [{addresses: [10.0.0.200]}]\n"
    )
    made = plan(text, extra="" if "selector: {app: web}" in text else slice_)
    [line] = lines(made)
    assert f": {reason}" in line
    assert {HOST_TO_ENTRANCE, EXTERNAL_TO_ENTRANCE} <= set(line.partition(": ")[0].split(", "))


def test_services_that_no_workload_may_ask_are_listed():
    firewall = (
        "---\napiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata: {name: default, namespace: NAME}\n"
        "spec: {egress: [{type: Deny, to: {cidrSelector: 0.0.0.0/0}}]}\n"
    )
    for name, where in (("red", "their network"), ("blue", "other networks")):
        made = plan(extra=firewall.replace("NAME", name))
        assert lines(made) == [
            f"workload to entrance: Services are not tested from workloads of {where}, as firewalls, egress addresses "
            "or other default routes decide about what all of these send: red/web of red_net"
        ]


def test_what_is_not_tested_is_in_the_report():
    made = plan(machine(CLIENTS))
    report = evaluate(made, {}, EXTERNAL, Selection(ALL))
    assert any("ports that lead to virtual machines" in line for line in report["north_south"]["left_out"])


@pytest.mark.parametrize(("answerer", "arrives", "result"), [
    (None, False, "isolated"), (None, True, "failed"), ("target", False, "failed"),
])  # fmt: skip
def test_a_packet_that_policies_deny_is_a_leak_when_it_arrives(answerer, arrives, result):
    made = plan(extra=policy([]))
    one = next(one for one in services(made, (EXTERNAL_TO_ENTRANCE,)) if one.through == "node1")
    assert not one.reach
    key = (one.source, one.target, one.network, one.address)
    seen = {"answered_by": one.target if answerer else None, "answered_on": "" if answerer else None,
            "milliseconds": 1.0, "asker": None, "large": False, "unsolicited": False}  # fmt: skip
    received = {(sender_of(one), "red/web1", "red_net", one.address): 0.0} if arrives else {}
    [row] = evaluated(made, [one], {key: seen}, received, {"node1", "external"})
    assert row["result"] == result
    assert ("red/p" in row["text"]) == (result == "failed")


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("denied", [True, False])
def test_a_refusal_shows_that_an_endpoint_got_what_policies_deny(protocol, named, denied):
    """Not where source ranges keep a sender out: there a host refuses by itself."""
    kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        if protocol == "UDP":
            closed.close()
        row = ExternalFlow(
            EXTERNAL_TO_ENTRANCE, "external", "external", "red/web", "", "", 4, "127.0.0.1", False, "",
            protocol=protocol, port=port, through="node1", responders=BOTH, named=named, denied=denied,
        )  # fmt: skip
        with Exchange([Question(row, [0])], {"external": Place()}, port) as exchange:
            exchange.ask(0)
            exchange.receive(time.monotonic() + 10)
            assert bool(exchange.asked[0].answers) is denied
