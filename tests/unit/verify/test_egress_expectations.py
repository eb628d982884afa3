# SPDX-License-Identifier: Apache-2.0
"""What verify expects of EgressIPs and EgressFirewalls."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    TO_EXTERNAL,
    TO_OTHER_HOST,
    TO_SERVICE,
    external_flows,
    left_out,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.firewall_permissions import (
    FirewallPermissions,
)
from tests.pipeline import labelled, layer2, namespace, plan_of, with_gateways, with_nics, workload
from tests.unit.controllers.test_egress_ips import egress_ip

EXTERNAL = {"outside": ["192.0.2.200", "2001:db8::200"]}
TEXT = "".join(
    namespace(name) + layer2(name, "net", "10.0.0.0/24", "fd00:10::/64") + workload(name, "a", "node1")
    for name in ("red", "blue")
)
RED = {"matchLabels": {"kubernetes.io/metadata.name": "red"}}
SERVICE = {
    "name": "kube-system/dns", "address": "10.96.0.10", "ports": [{"protocol": "UDP", "port": 53}],
    "endpoints": ["198.51.100.7"],
}  # fmt: skip


def planned(text: str) -> dict:
    return plan_of(TEXT + text, hosts=labelled(with_gateways("shared")), settings={"shared_services": [SERVICE]})


def firewall(*rules: dict) -> str:
    document = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressFirewall",
                "metadata": {"name": "default", "namespace": "red"}, "spec": {"egress": list(rules)}}  # fmt: skip
    return f"---\n{json.dumps(document)}\n"


def rule(kind: str, cidr: str, *ports: int) -> dict:
    ports = {"ports": [{"protocol": "UDP", "port": port} for port in ports]} if ports else {}
    return {"type": kind, "to": {"cidrSelector": cidr}, **ports}


def flows(plan: dict, kind: str) -> dict[tuple[str, int], object]:
    return {(one.source, one.family): one for one in external_flows(plan, EXTERNAL) if one.kind == kind}


def test_external_hosts_see_the_egress_addresses_and_nodes_the_address_of_the_node():
    plan = planned(egress_ip("web", "192.0.2.100", "192.0.2.101", namespaceSelector=RED))
    found = flows(plan, TO_EXTERNAL)
    assert (found["red/a", 4].sources, found["red/a", 4].seen_as) == (("192.0.2.100", "192.0.2.101"), "")
    assert (found["red/a", 6].sources, found["red/a", 6].seen_as) == ((), "2001:db8::b")
    assert (found["blue/a", 4].sources, found["blue/a", 4].seen_as) == ((), "192.0.2.11")
    assert flows(plan, TO_OTHER_HOST)["red/a", 4].seen_as == "192.0.2.11"


def test_packets_through_another_nic_are_left_out():
    text = namespace("plain", primary=False) + workload("plain", "a", "node1")
    everyone = egress_ip("web", "203.0.113.100")
    plan = plan_of(TEXT + text + everyone, hosts=with_nics(labelled(with_gateways("shared"))))
    found = flows(plan, TO_EXTERNAL)
    assert ("plain/a", 4) not in found
    assert found["plain/a", 6].seen_as == "2001:db8::b"
    # User-defined networks leave with the address of the node.
    assert found["red/a", 4].seen_as == "192.0.2.11"
    assert "203.0.113.100: packets that leave through eth3 of node1 are not tested" in left_out(plan, EXTERNAL)


def test_firewall_decides_what_is_expected():
    found = planned(firewall(rule("Allow", "192.0.2.200/32", 7654), rule("Deny", "0.0.0.0/0")))
    to_external = flows(found, TO_EXTERNAL)
    assert [to_external[one].reach for one in (("red/a", 4), ("red/a", 6), ("blue/a", 4))] == [True, True, True]
    assert not flows(found, TO_OTHER_HOST)["red/a", 4].reach
    assert not flows(found, TO_SERVICE)["red/a", 4].reach
    assert flows(found, TO_SERVICE)["blue/a", 4].reach


@pytest.mark.parametrize(
    ("address", "protocol", "port", "refused"),
    [
        ("198.51.100.1", "UDP", 53, False),
        ("198.51.100.1", "TCP", 53, True),
        ("198.51.100.1", "UDP", 54, True),
        ("203.0.113.1", "UDP", 53, True),
        ("10.0.0.9", "TCP", 1, False),
        ("100.65.0.2", "TCP", 1, False),
        ("2001:db8::9", "TCP", 1, False),
    ],
)
def test_first_rule_that_matches(address, protocol, port, refused):
    plan = planned(
        firewall(rule("Allow", "198.51.100.0/24", 53), rule("Deny", "0.0.0.0/0"), rule("Allow", "0.0.0.0/0"))
    )
    assert bool(FirewallPermissions(plan).refusal("red_net", "red/a", address, protocol, port)) is refused
    assert not FirewallPermissions(plan).refusal("blue_net", "blue/a", address, protocol, port)


def named(kind: str, name: str, *ports: int) -> dict:
    return {**rule(kind, "", *ports), "to": {"dnsName": name}}


def test_what_a_rule_with_a_name_may_decide_is_left_out_and_listed():
    plan = planned(firewall(rule("Allow", "192.0.2.200/32", 7654), named("Allow", "www.example.com"),
                            rule("Deny", "0.0.0.0/0")))  # fmt: skip
    to_external = flows(plan, TO_EXTERNAL)
    # A rule before it decides about IPv4; about the other addresses nothing is known.
    assert to_external["red/a", 4].reach
    assert ("red/a", 6) not in to_external
    assert ("red/a", 4) not in flows(plan, TO_OTHER_HOST)
    assert ("red/a", 4) not in flows(plan, TO_SERVICE)
    assert flows(plan, TO_SERVICE)["blue/a", 4].reach
    line = "red: packets to www.example.com are not tested, the plan has no addresses of DNS names"
    assert line in left_out(plan, EXTERNAL)


def test_a_name_with_other_ports_decides_nothing():
    plan = planned(firewall(named("Allow", "www.example.com", 443), rule("Deny", "0.0.0.0/0")))
    assert not flows(plan, TO_EXTERNAL)["red/a", 4].reach
