# SPDX-License-Identifier: Apache-2.0
"""Policies of the cluster in the state: order, status, what the plan and a node have of them."""

from __future__ import annotations

import json

from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_status import attention
from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_view import documents
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import layer2, layer3, namespace, stored, with_gateways, with_nics, workload

RED = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "a", "node1")
    + namespace("deep") + layer3("deep", "net", "10.128.0.0/16", 24) + workload("deep", "a", "node1")
    + namespace("plain", primary=False) + workload("plain", "a", "node1") + workload("plain", "b", "node2")
)  # fmt: skip
NODE2 = ["192.0.2.12", "198.18.1.12", "198.18.2.12", "2001:db8:3::c", "2001:db8::c", "203.0.113.12"]
DENY = {"action": "Deny", "from": [{"namespaces": {}}]}


def admin(name: str = "p", priority: int | None = 10, logging: str = "", **spec) -> str:
    metadata: dict = {"name": name}
    if logging:
        metadata["annotations"] = {"k8s.ovn.org/acl-logging": logging}
    fields = {"subject": {"namespaces": {}}, **spec} | ({} if priority is None else {"priority": priority})
    document = {
        "apiVersion": "policy.networking.k8s.io/v1alpha1",
        "kind": "BaselineAdminNetworkPolicy" if priority is None else "AdminNetworkPolicy",
        "metadata": metadata, "spec": fields,
    }  # fmt: skip
    return f"---\n{json.dumps(document)}\n"


def conditions(snapshot, key: str = "AdminNetworkPolicy/p") -> list[tuple]:
    found = snapshot.objects[key].status["conditions"]
    return [(one["type"], one["status"], one["reason"], one["message"]) for one in found]


def acls(text: str, network: str = "red_net", node: str = "node1", **more) -> list[dict]:
    rows = render_northbound(build_plan(stored(text, **more)), node)
    return [
        {"key": row.key, **row.columns}
        for row in rows
        if row.table == "ACL" and row.network == network and "NetworkPolicy:" in row.key
    ]


def priorities(text: str) -> dict[str, int]:
    return {one["name"]: one["priority"] for one in acls(text)}


def test_policy_is_about_every_primary_network_of_its_subjects():
    after = stored(RED + admin(ingress=[DENY]))
    assert list(build_plan(after)["policies"]) == ["deep_net", "default", "red_net"]
    assert conditions(after) == [
        ("Accepted", "True", "Accepted", "in effect for 4 workloads on 3 primary networks"),
    ]  # fmt: skip
    subject = {"pods": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "red"}},
                        "podSelector": {}}}  # fmt: skip
    after = stored(RED + admin(subject=subject, ingress=[DENY]))
    assert list(build_plan(after)["policies"]) == ["red_net"]
    assert conditions(after)[0][3] == "in effect for 1 workload on 1 primary network"


def test_policy_that_selects_nothing_is_accepted_and_says_so():
    after = stored(RED + admin(subject={"namespaces": {"matchLabels": {"a": "b"}}}, ingress=[DENY]))
    assert conditions(after) == [("Accepted", "True", "Accepted", "in effect; subject selects no workload")]
    assert build_plan(after)["policies"] == {}
    assert not [line for line in attention(documents(after)) if "NetworkPolicy" in line]


def test_workloads_locked_on_the_default_network_are_no_subjects_there():
    [selected] = build_plan(stored(RED + admin(ingress=[DENY])))["policies"]["default"]["selections"].values()
    assert selected == ["plain/a", "plain/b"]


def test_tiers_priorities_and_actions():
    rules = [{**DENY, "action": action} for action in ("Allow", "Deny", "Pass")]
    found = acls(RED + admin(priority=34, ingress=rules) + admin("default", None, ingress=rules[:2]))
    assert [(one["name"], one["tier"], one["priority"], one["action"]) for one in found] == [
        ("ANP:p:Ingress:0", 1, 26600, "allow-related"),
        ("ANP:p:Ingress:1", 1, 26599, "drop"),
        ("ANP:p:Ingress:2", 1, 26598, "pass"),
        ("BANP:default:Ingress:0", 3, 1750, "allow-related"),
        ("BANP:default:Ingress:1", 3, 1749, "drop"),
    ]


def test_policies_of_one_priority_follow_each_other():
    text = RED + admin("b", 5, ingress=[DENY] * 2) + admin("a", 5, ingress=[DENY] * 3) + admin("c", 6, ingress=[DENY])
    assert priorities(text) == {
        "ANP:a:Ingress:0": 29500, "ANP:a:Ingress:1": 29499, "ANP:a:Ingress:2": 29498,
        "ANP:b:Ingress:0": 29497, "ANP:b:Ingress:1": 29496,
        "ANP:c:Ingress:0": 29400,
    }  # fmt: skip
    after = stored(text)
    message = "policies with priority 5 decide in this order: a, b"
    for name in "ab":
        assert conditions(after, f"AdminNetworkPolicy/{name}")[1] == (
            "DuplicatePriority", "True", "ANPWithDuplicatePriority", message,
        )  # fmt: skip
    assert len(conditions(after, "AdminNetworkPolicy/c")) == 1
    assert any(message in line for line in attention(documents(after)))


def test_more_rules_than_one_priority_has_push_the_next_one_down():
    text = RED + "".join(admin(name, 5, egress=[{"action": "Pass", "to": [{"namespaces": {}}]}] * 60) for name in "ab")
    found = priorities(text + admin("c", 6, ingress=[DENY]))
    assert (found["ANP:a:Egress:59"], found["ANP:b:Egress:0"], found["ANP:b:Egress:59"]) == (29441, 29440, 29381)
    assert found["ANP:c:Ingress:0"] == 29380


def test_priorities_beyond_those_of_ovn_kubernetes_have_an_effect():
    text = RED + admin("a", 1000, ingress=[DENY]) + admin("b", 100, ingress=[DENY]) + admin("c", 99, ingress=[DENY])
    assert priorities(text) == {"ANP:c:Ingress:0": 20100, "ANP:b:Ingress:0": 20099, "ANP:a:Ingress:0": 20098}


def test_policy_without_a_priority_left_is_reported():
    many = "".join(admin(f"p{number:03}", 1000, ingress=[DENY] * 100) for number in range(202))
    after = stored(many)
    assert conditions(after, "AdminNetworkPolicy/p200")[0][:3] == ("Accepted", "True", "Accepted")
    assert conditions(after, "AdminNetworkPolicy/p201") == [
        ("Accepted", "False", "SetupFailed",
         "policies of higher priority use all priorities of ACLs; merge policies"),
    ]  # fmt: skip


def test_nodes_and_networks_are_peers():
    rule = {"action": "Allow", "to": [{"networks": ["203.0.113.0/24", "2001:db8::/32"]},
                                      {"nodes": {"matchLabels": {"kubernetes.io/hostname": "node2"}}}]}  # fmt: skip
    [found] = acls(RED + admin(egress=[rule]), hosts=with_gateways("shared"))
    assert "ip4.dst == 203.0.113.0/24" in found["match"]
    assert "ip4.dst == 192.0.2.12" in found["match"]
    assert "192.0.2.11" not in found["match"]
    assert "ip6" not in found["match"]


def test_a_node_is_all_of_its_addresses():
    """Those of the provider network, of the host and of its tunnels, and of further NICs."""
    rule = {"action": "Deny", "to": [{"nodes": {"matchLabels": {"kubernetes.io/hostname": "node2"}}}]}
    after = stored(RED + admin(egress=[rule]), hosts=with_nics(with_gateways("shared")))
    [entry] = build_plan(after)["policies"]["red_net"]["admin"]
    assert [block["cidr"] for block in entry["rules"][0]["blocks"]] == NODE2


def test_a_node_of_a_firewall_is_all_of_its_addresses():
    rule = {"type": "Deny", "to": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "node2"}}}}
    firewall = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressFirewall",
                "metadata": {"name": "default", "namespace": "red"}, "spec": {"egress": [rule]}}  # fmt: skip
    after = stored(RED + f"---\n{json.dumps(firewall)}\n", hosts=with_nics(with_gateways("shared")))
    [entry] = build_plan(after)["egress_firewalls"]["red_net"]
    assert sorted(entry["rules"][0]["targets"]) == NODE2


def test_named_port_is_that_of_all_protocols():
    ports = (
        "ports: [{name: dns, containerPort: 53, protocol: UDP}, {name: http, containerPort: 80}]}\n",
        "ports: [{name: dns, containerPort: 5353}]}\n",
    )
    text = RED + "".join(
        workload("red", f"w{number}", "node1").replace("node: node1}\n", f"node: node1, {one}")
        for number, one in enumerate(ports)
    )
    found = acls(text + admin(ingress=[{**DENY, "ports": [{"namedPort": "dns"}]}]))
    assert sorted(one["key"].rpartition(":")[2] for one in found) == ["TCP", "UDP"]
    after = stored(text + admin(ingress=[{**DENY, "ports": [{"namedPort": "dns"}, {"namedPort": "gone"}]}]))
    assert conditions(after)[1] == (
        "PartialFailure", "True", "NamedPortNotFound",
        "no workload has such a port, so the rule does nothing for it: ingress gone",
    )  # fmt: skip


def test_rules_that_only_deny_come_with_connection_tracking():
    rows = render_northbound(build_plan(stored(RED + admin(ingress=[DENY]))), "node1")
    for network in ("red_net", "deep_net", "default"):
        assert "allow-related" in {
            row.columns["action"] for row in rows
            if row.table == "ACL" and row.network == network and row.columns["tier"] == 2
        }  # fmt: skip


def test_virtual_machines_obtain_addresses_whatever_networks_are_denied():
    vm = workload("red", "vm", "node1").replace("spec: {", "spec: {kind: vm, ")
    everywhere = [{"action": "Deny", "to": [{"networks": ["0.0.0.0/0", "::/0"]}]}]
    text = RED + admin(egress=everywhere) + admin("default", None, egress=everywhere)
    assert not [one for one in acls(text) if "dhcp" in one["key"]]
    found = [one for one in acls(text + vm) if "dhcp" in one["key"]]
    assert [(one["tier"], one["priority"], one["action"]) for one in found] == [(1, 30001, "allow"), (3, 1751, "allow")]


def test_logging_of_policies_of_the_cluster():
    rules = [{**DENY, "action": action} for action in ("Allow", "Deny", "Pass")]
    logging = '{"deny": "alert", "allow": "notice", "pass": "warning"}'
    found = acls(RED + admin(logging=logging, ingress=rules))
    assert [(one["severity"], one["log"], one["meter"]) for one in found] == [
        ("notice", True, "acl-logging"), ("alert", True, "acl-logging"), ("warning", True, "acl-logging"),
    ]  # fmt: skip
    assert [one["log"] for one in acls(RED + admin(ingress=rules))] == [False] * 3


def test_logging_of_a_namespace():
    policy = {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p", "namespace": "red"},
        "spec": {"podSelector": {}, "ingress": [{}]},
    }  # fmt: skip
    firewall = {
        "apiVersion": "k8s.ovn.org/v1", "kind": "EgressFirewall", "metadata": {"name": "default", "namespace": "red"},
        "spec": {"egress": [{"type": "Deny", "to": {"cidrSelector": "0.0.0.0/0"}}]},
    }  # fmt: skip
    text = RED.replace(
        "  name: red\n", '  name: red\n  annotations: {k8s.ovn.org/acl-logging: \'{"deny": "info"}\'}\n', 1
    )
    text += f"---\n{json.dumps(policy)}\n---\n{json.dumps(firewall)}\n"
    rows = render_northbound(build_plan(stored(text)), "node1")
    logged = {row.columns["name"]: row.columns["severity"] for row in rows if row.table == "ACL" and row.columns["log"]}
    assert logged == {"NP:red:Ingress": "info", "EF:red:0": "info"}
    [meter] = [row for row in rows if row.table == "Meter" and row.key == "acl-logging"]
    assert meter.columns == {"name": "acl-logging", "unit": "pktps", "fair": True}
    silent = render_northbound(build_plan(stored(RED)), "node1")
    assert not [row for row in silent if row.key == "acl-logging"]
