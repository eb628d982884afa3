# SPDX-License-Identifier: Apache-2.0
"""What verify expects of policies: as the model of the API says, for any set; and how flows depend on it."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings

from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import expected
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    FROM_HOST,
    FROM_VRF,
    TO_EXTERNAL,
    TO_SERVICE,
    external_flows,
    left_out,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.policy_permissions import PolicyPermissions
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from tests import policy_model
from tests.pipeline import EVERYWHERE, layer2, layer3, namespace, plan_of, with_gateways, workload
from tests.policy_model import Connection
from tests.policy_sets import POLICY_SETS
from tests.policy_tenants import KINDS, OUTSIDE, Tenant, baseline, text_of

TRANSPORTS = [kind for kind in KINDS if kind[0] != "ICMP"]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(POLICY_SETS)
def test_permissions_are_those_of_the_model(drawn):
    of_cluster = baseline(drawn)
    tenant = Tenant(1, drawn, of_cluster)
    plan = plan_of(text_of(of_cluster) + tenant.manifests(), hosts=with_gateways("shared"))
    permissions = PolicyPermissions(plan)
    endpoints = [*tenant.endpoints(plan), *OUTSIDE]
    for source in endpoints:
        for target in endpoints:
            for number, (protocol, port) in enumerate(TRANSPORTS) if source != target else ():
                version = (4, 6)[number % 2]
                connection = Connection(source, target, version, protocol, port)
                names = ["" if one in OUTSIDE else one.name for one in (source, target)]
                addresses = (source.address(version), target.address(version))
                wanted = (not names[0] or policy_model.sends(tenant.policies, connection)) and (
                    not names[1] or policy_model.receives(tenant.policies, connection)
                )
                assert (permissions.refusal(tenant.network, *names, addresses, protocol, port) == "") == wanted


def policy(inside: str, spec: dict, name: str = "p") -> str:
    document = {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name, "namespace": inside},
        "spec": spec,
    }  # fmt: skip
    return f"---\n{json.dumps(document)}\n"


RED = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + workload("red", "a", "node1") + workload("red", "b", "node2")
    + namespace("deep") + layer3("deep", "net", "10.128.0.0/16", 24) + workload("deep", "a", "node2")
    + namespace("plain", primary=False) + workload("plain", "a", "node1") + workload("plain", "b", "node2")
)  # fmt: skip
CLOSED_TO_OTHERS = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]}]}
NOTHING_OUT = {"podSelector": {}, "policyTypes": ["Egress"]}
ALL_OUT = {**NOTHING_OUT, "egress": [{}]}


def flows(text: str, kind: str, workload_name: str, settings: dict | None = None):
    plan = plan_of(text, hosts=with_gateways("shared"), settings={**EVERYWHERE, **(settings or {})})
    found = external_flows(plan, {"outside1": ["192.0.2.99", "2001:db8::99"]}, None, Selection(ALL))
    return [one for one in found if one.kind == kind and one.workload == workload_name]


def test_pairs_that_policies_forbid_must_not_reach():
    plan = plan_of(RED + policy("red", CLOSED_TO_OTHERS))
    found = [pair for pair in expected(plan, None, Selection(ALL)) if pair.network == "red_net"]
    assert not [pair for pair in found if pair.reach]
    between = {pair.reason for pair in found if {pair.source, pair.target} == {"red/a", "red/b"}}
    assert between == {
        f"the rules of NetworkPolicy red/p for red/{one} do not permit it to receive this from red/{other}"
        for one, other in (("a", "b"), ("b", "a"))
    }
    assert [pair for pair in expected(plan, None, Selection(ALL)) if pair.network == "deep_net"]
    assert not [pair.mtu for pair in found if pair.mtu]


def refusal(text: str, network: str = "red_net") -> str:
    return PolicyPermissions(plan_of(text)).refusal(network, "red/a", "red/b", ("10.0.0.2", "10.0.0.3"), "UDP", 7654)


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ("p", "NetworkPolicy red/p"),
        ("qp", "NetworkPolicies red/p, red/q"),
        ("rqp", "NetworkPolicies red/p, red/q, red/r"),
        ("tsrqp", "NetworkPolicies red/p, red/q, red/r and 2 more"),
    ],
)
def test_reason_names_the_policies_that_isolate_in_that_direction(names, named):
    # The first ones isolate in the other direction, or another workload.
    text = RED + policy("red", ALL_OUT, "a")
    text += policy("red", {**CLOSED_TO_OTHERS, "podSelector": {"matchLabels": {"app": "absent"}}}, "b")
    text += "".join(policy("red", CLOSED_TO_OTHERS, name) for name in names)
    assert refusal(text) == f"the rules of {named} for red/b do not permit it to receive this from red/a"


def test_reason_of_egress_names_those_of_the_sender():
    text = RED + policy("red", NOTHING_OUT, "b") + policy("red", NOTHING_OUT, "a")
    named = "the rules of NetworkPolicies red/a, red/b for red/a do not permit it to send this to red/b"
    assert refusal(text) == named
    assert refusal(text + policy("red", ALL_OUT, "c")) == ""


def test_reason_names_multi_network_policies_on_a_secondary_network():
    text = namespace("red", primary=False) + layer2("red", "san", "10.0.0.0/24").replace("Primary", "Secondary")
    text += workload("red", "a", "node1", "san") + workload("red", "b", "node1", "san")
    text += (
        policy("red", CLOSED_TO_OTHERS)
        .replace("networking.k8s.io/v1", "k8s.cni.cncf.io/v1beta1")
        .replace("NetworkPolicy", "MultiNetworkPolicy")
        .replace('"namespace": "red"', '"namespace": "red", "annotations": {"k8s.v1.cni.cncf.io/policy-for": "san"}')
    )
    named = "the rules of MultiNetworkPolicy red/p for red/b do not permit it to receive this from red/a"
    assert refusal(text, "red_san") == named


def test_ports_count_for_the_port_of_the_probe():
    for port, reach in ((7654, True), (53, False)):
        spec = {"podSelector": {}, "ingress": [{"ports": [{"protocol": "UDP", "port": port}]}]}
        pairs = expected(plan_of(RED + policy("red", spec)), None, Selection(ALL))
        assert {pair.reach for pair in pairs if {pair.source, pair.target} == {"red/a", "red/b"}
                and pair.network == "red_net"} == {reach}  # fmt: skip


def test_egress_policies_forbid_external_hosts():
    assert all(one.reach for one in flows(RED, TO_EXTERNAL, "red/a"))
    found = flows(RED + policy("red", NOTHING_OUT), TO_EXTERNAL, "red/a")
    assert found
    assert not [one for one in found if one.reach]
    allowed = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}],
    }
    assert {one.family: one.reach for one in flows(RED + policy("red", allowed), TO_EXTERNAL, "red/a")} == {
        4: True, 6: False,
    }  # fmt: skip


def test_a_host_reaches_its_own_workloads_whatever_policies_say():
    for kind, name in ((FROM_HOST, "plain/b"), (FROM_VRF, "deep/a")):
        text = RED + policy(name.partition("/")[0], CLOSED_TO_OTHERS)
        network = "default" if kind == FROM_HOST else "deep_net"
        found = [one for one in flows(text, kind, name) if one.network == network]
        assert {one.runner: one.reach for one in found} == {"node1": False, "node2": True}
        assert all(one.reach for one in flows(RED, kind, name) if one.network == network)


def test_services_are_left_out_where_policies_decide():
    settings = {"shared_services": [{"name": "kube-system/dns", "address": "10.96.0.10", "endpoints": ["plain/a"],
                                     "ports": [{"protocol": "UDP", "port": 53}]}]}  # fmt: skip
    assert flows(RED, TO_SERVICE, "red/a", settings)
    text = RED + policy("red", NOTHING_OUT)
    assert not flows(text, TO_SERVICE, "red/a", settings)
    assert flows(text, TO_SERVICE, "deep/a", settings)
    lines = left_out(plan_of(text, hosts=with_gateways("shared"), settings=settings), {})
    assert "kube-system/dns: not tested from workloads for which policies decide about packets to it (2)" in lines
    # Its second family makes no second line.
    settings["shared_services"].append({**settings["shared_services"][0], "address": "fd00:10:96::10"})
    both = left_out(plan_of(text, hosts=with_gateways("shared"), settings=settings), {})
    assert [one for one in both if one.startswith("kube-system/dns")] == [
        one for one in lines if one.startswith("kube-system/dns")
    ]
    assert not flows(RED + policy("plain", CLOSED_TO_OTHERS), TO_SERVICE, "deep/a", settings)


def of_cluster(kind: str, spec: dict, name: str = "p") -> str:
    document = {
        "apiVersion": "policy.networking.k8s.io/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": {"subject": {"namespaces": {}}, **spec},
    }  # fmt: skip
    return f"---\n{json.dumps(document)}\n"


def reason(text: str, target: str = "red/b") -> str:
    """Why red/a reaches a target, or does not."""
    pairs = expected(plan_of(text), None, Selection(ALL))
    [found] = {one.reason for one in pairs if (one.source, one.target, one.network) == ("red/a", target, "red_net")}
    return found


def test_reason_names_the_rule_that_permits():
    both = "both are attached to red_net"
    assert reason(RED) == both
    # A policy for another workload, and a rule of the cluster for another port, decide nothing.
    absent = policy("red", {**CLOSED_TO_OTHERS, "podSelector": {"matchLabels": {"app": "absent"}}})
    every = [{"namespaces": {}}]
    elsewhere = {"action": "Deny", "from": every, "ports": [{"portNumber": {"protocol": "TCP", "port": 1}}]}
    nothing = of_cluster("AdminNetworkPolicy", {"priority": 1, "ingress": [elsewhere]})
    assert reason(RED + absent + nothing) == both

    opened = {"podSelector": {}, "ingress": [CLOSED_TO_OTHERS["ingress"][0], {"from": [{"podSelector": {}}]}]}
    permitted = "permits red/b to receive this from red/a"
    rule = f"{both}; spec.ingress[1] of NetworkPolicy red/q {permitted}"
    assert reason(RED + policy("red", CLOSED_TO_OTHERS) + policy("red", opened, "q")) == rule
    sent = f"{both}; spec.egress[0] of NetworkPolicy red/p permits red/a to send this to red/b"
    assert reason(RED + policy("red", ALL_OUT)) == sent
    assert reason(RED + policy("red", ALL_OUT) + policy("red", opened, "q")) == sent + rule.removeprefix(both)

    # A policy of the cluster that permits it counts whatever its namespace says; one that passes it on does not.
    denied = of_cluster("BaselineAdminNetworkPolicy", {"ingress": [{"action": "Deny", "from": every}]}, "default")
    for action, expected_reason in (
        ("Allow", f"{both}; spec.ingress[1] of AdminNetworkPolicy p {permitted}"),
        ("Pass", "the rules of NetworkPolicy red/p for red/b do not permit it to receive this from red/a"),
    ):
        rules = {"priority": 1, "ingress": [elsewhere, {"action": action, "from": every}]}
        text = RED + policy("red", CLOSED_TO_OTHERS) + of_cluster("AdminNetworkPolicy", rules) + denied
        assert reason(text) == expected_reason
    allowed = of_cluster("BaselineAdminNetworkPolicy", {"ingress": [{"action": "Allow", "from": every}]}, "default")
    assert reason(RED + allowed) == f"{both}; spec.ingress[0] of BaselineAdminNetworkPolicy default {permitted}"
