# SPDX-License-Identifier: Apache-2.0
"""MultiNetworkPolicies in the state: the networks they are about, their status, what the plan has of them."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import layer2, namespace, stored, workload

WITHOUT_SUBNETS = (
    "topology: Localnet, localnet: {role: Secondary, physicalNetworkName: physnet, ipam: {mode: Disabled}}"
)


def secondary(name: str, spec: str, inside: str = "red") -> str:
    return (
        f"---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {{name: {name}}}\n"
        "spec: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "
        f"{inside}}}}}, network: {{{spec}}}}}\n"
    )


def policy(policy_for: str | None, name: str = "p", inside: str = "red", **spec) -> str:
    metadata: dict = {"name": name, "namespace": inside}
    if policy_for is not None:
        metadata["annotations"] = {"k8s.v1.cni.cncf.io/policy-for": policy_for}
    document = {
        "apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy", "metadata": metadata,
        "spec": {"podSelector": {}, **spec},
    }  # fmt: skip
    return f"---\n{json.dumps(document)}\n"


RED = (
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24")
    + secondary("flat", "topology: Layer2, layer2: {role: Secondary, subnets: [10.7.0.0/24]}")
    + secondary("wire", WITHOUT_SUBNETS)
    + workload("red", "a", "node1", "flat,wire")
    + workload("red", "b", "node2", "flat,wire")
)
FROM_PODS = [{"from": [{"podSelector": {}}]}]
FROM_BLOCK = [{"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}]


def conditions(snapshot) -> list[tuple]:
    found = snapshot.objects["MultiNetworkPolicy/red/p"].status["conditions"]
    return [(one["type"], one["status"], one["reason"], one["message"]) for one in found]


def acls(snapshot, network: str, node: str = "node1") -> dict[str, str]:
    """Rules of the policies, without those that pass on connections which the policies ended."""
    rows = render_northbound(build_plan(snapshot), node)
    return {
        row.key: row.columns["match"]
        for row in rows
        if row.table == "ACL" and row.network == network and row.columns["action"] != "pass"
    }


@pytest.mark.parametrize("named", ["flat", "red/flat", "red/flat, flat"])
def test_policy_is_about_the_networks_that_it_names(named):
    after = stored(RED + policy(named, ingress=FROM_PODS))
    assert conditions(after) == [("Accepted", "True", "Accepted", "in effect on cluster_udn_flat")]
    assert list(build_plan(after)["policies"]) == ["cluster_udn_flat"]
    assert any(":NetworkPolicy:red:p:Ingress:0:None:-1" in key for key in acls(after, "cluster_udn_flat"))
    assert not acls(after, "cluster_udn_wire")
    assert not acls(after, "red_net")


def test_network_without_subnets_takes_ip_blocks_only():
    after = stored(RED + policy("wire", ingress=FROM_BLOCK))
    assert conditions(after)[0] == ("Accepted", "True", "Accepted", "in effect on cluster_udn_wire")
    found = acls(after, "cluster_udn_wire")
    assert len(found) == 3
    assert any("ip4.src == 192.0.2.0/24" in match for match in found.values())
    refused = stored(RED + policy("wire", ingress=FROM_PODS))
    message = "red/wire: IPAM-less networks can only have `ipBlock` peers"
    assert conditions(refused) == [("Accepted", "False", "PeerNotSupported", message)]
    assert not acls(refused, "cluster_udn_wire")


def test_rule_without_peers_is_about_both_families_on_a_network_without_subnets():
    [match] = [
        one for key, one in acls(stored(RED + policy("wire", ingress=[{}])), "cluster_udn_wire").items()
        if ":NetworkPolicy:" in key
    ]  # fmt: skip
    assert match.startswith("(ip4 || ip6)")


NAMED = [{"port": "http"}]
REQUESTED = json.dumps([{"name": "wire", "ips": ["192.0.2.8/24"]}])


def named_port(name: str, node: str, number: int, networks: str = "wire") -> str:
    """A workload with a port that has a name, labelled by its own name."""
    ports = f"ports: [{{name: http, containerPort: {number}}}]"
    metadata = {"name": name, "namespace": "red", "labels": {"app": name},
                "annotations": {"k8s.v1.cni.cncf.io/networks": networks}}  # fmt: skip
    return (
        f"---\napiVersion: heddle.dev/v1\nkind: Workload\nmetadata: {json.dumps(metadata)}\n"
        f"spec: {{node: {node}, {ports}}}\n"
    )


def rules_and_sets(snapshot, direction: str) -> tuple[list[str], dict[str, list[str]]]:
    """What the rules of a direction match on node1, and members of the sets that they refer to, by name."""
    rows = [row for row in render_northbound(build_plan(snapshot), "node1") if row.network == "cluster_udn_wire"]
    found = [row.columns["match"] for row in rows if f":NetworkPolicy:red:p:{direction}:" in row.key]
    members = {
        row.columns["name"]: sorted(row.columns.get("addresses", ()))
        or sorted(ref.key for ref in row.columns.get("ports", ()))
        for row in rows
        if row.table in ("Address_Set", "Port_Group")
    }
    return found, {name: members[name] for match in found for name in re.findall(r"[$@](\w+)", match)}


@pytest.mark.parametrize("peers", [{}, FROM_BLOCK[0]], ids=["everyone", "block"])
def test_named_port_received_without_subnets_is_that_of_the_port_of_the_workload(peers):
    """The addresses there are not known. No rule is there for numbers that no workload of the host has."""
    text = RED + named_port("c", "node1", 8080) + named_port("d", "node1", 9090) + named_port("e", "node2", 7070)
    after = stored(text + policy("wire", ingress=[{**peers, "ports": NAMED}]))
    assert conditions(after) == [("Accepted", "True", "Accepted", "in effect on cluster_udn_wire")]
    [match], members = rules_and_sets(after, "Ingress")
    of_c, of_d, subjects = re.findall(r"@(\w+)", match)
    assert f"((tcp.dst == 8080 && outport == @{of_c}) || (tcp.dst == 9090 && outport == @{of_d}))" in match
    assert (members[of_c], members[of_d]) == (["red.wire_red_c"], ["red.wire_red_d"])
    assert members[subjects] == ["red.wire_red_a", "red.wire_red_c", "red.wire_red_d"]
    assert "$" not in match


def test_named_port_that_no_workload_of_the_host_has_makes_no_rule_without_subnets():
    text = RED + named_port("e", "node2", 7070)
    found, _members = rules_and_sets(stored(text + policy("wire", ingress=[{"ports": NAMED}])), "Ingress")
    assert found == []


@pytest.mark.parametrize("peers", [{}, {"to": FROM_BLOCK[0]["from"]}], ids=["everyone", "block"])
def test_named_port_sent_to_without_subnets_is_that_of_known_addresses(peers):
    text = RED + named_port("c", "node2", 8080, REQUESTED) + named_port("d", "node1", 8080)
    after = stored(text + policy("wire", policyTypes=["Egress"], egress=[{**peers, "ports": NAMED}]))
    assert conditions(after) == [
        ("Accepted", "True", "Accepted", "in effect on cluster_udn_wire"),
        ("PartialFailure", "True", "NamedPortNotSupported",
         "nothing is allowed to these ports of workloads whose addresses are not known, on a network without IPAM and "
         "without `ips` in their annotation: egress TCP http"),
    ]  # fmt: skip
    [match], members = rules_and_sets(after, "Egress")
    sets = re.findall(r"ip([46]).dst == \$(\w+)", match)
    assert [(version, members[name]) for version, name in sets] == [("4", ["192.0.2.8"]), ("6", [])]


def test_named_port_of_known_addresses_is_no_failure():
    text = RED + named_port("c", "node2", 8080, REQUESTED)
    after = stored(text + policy("wire", egress=[{"ports": NAMED}]))
    assert conditions(after) == [("Accepted", "True", "Accepted", "in effect on cluster_udn_wire")]


def test_policy_has_an_effect_where_it_can():
    after = stored(RED + policy("flat, wire, red/gone, red/net", ingress=FROM_PODS))
    assert conditions(after) == [
        ("Accepted", "True", "Accepted", "in effect on cluster_udn_flat"),
        ("PartialFailure", "True", "PeerNotSupported",
         "red/wire: IPAM-less networks can only have `ipBlock` peers; "
         "there is no network attachment definition red/gone of a network in effect; "
         "red/net is a primary network: write a NetworkPolicy"),
    ]  # fmt: skip


def test_policy_that_names_no_network():
    after = stored(RED + policy(None))
    message = "the annotation k8s.v1.cni.cncf.io/policy-for names no network"
    assert conditions(after) == [("Accepted", "False", "NetworkMissing", message)]
    assert not build_plan(after)["policies"]


def test_workloads_are_selected_where_they_are_attached():
    text = RED + workload("red", "c", "node1") + policy("flat", ingress=FROM_PODS)
    [selected] = build_plan(stored(text))["policies"]["cluster_udn_flat"]["selections"].values()
    assert selected == ["red/a", "red/b"]


def test_switch_tracks_connections_where_all_rules_deny():
    """Otherwise replies to a workload that no other may connect to were dropped."""
    rows = render_northbound(build_plan(stored(RED + policy("flat"))), "node1")
    actions = {row.columns["action"] for row in rows if row.table == "ACL" and row.network == "cluster_udn_flat"}
    assert actions == {"drop", "allow-related", "pass"}


def test_example_of_ovn_kubernetes():
    """docs/features/multiple-networks/multi-network-policies.md, with the network that it has there."""
    example = """---
apiVersion: k8s.cni.cncf.io/v1beta1
kind: MultiNetworkPolicy
metadata:
  annotations:
    k8s.v1.cni.cncf.io/policy-for: default/tenant-blue # indicates the net-attach-defs this policy applies to
  name: allow-ports-same-ns
spec:
  podSelector:
    matchLabels:
      app: stuff-doer # the policy will **apply** to all pods with this label
  ingress:
  - ports:
    - port: 9000
      protocol: TCP
    from:
    - namespaceSelector:
        matchLabels:
          role: trusted # only pods on namespaces with this label will be allowed on port 9000
  policyTypes:
    - Ingress
"""
    network = secondary(
        "tenant-blue", "topology: Layer2, layer2: {role: Secondary, subnets: [192.168.100.0/24]}", "default"
    )
    after = stored(namespace("default", primary=False) + network + example)
    [condition] = after.objects["MultiNetworkPolicy/default/allow-ports-same-ns"].status["conditions"]
    assert condition["message"] == "in effect on cluster_udn_tenant-blue; podSelector selects no workload"
