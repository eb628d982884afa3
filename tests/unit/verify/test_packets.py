# SPDX-License-Identifier: Apache-2.0
"""Which packets are traced, and what their traces look like in one text."""

from __future__ import annotations

import json

from ansible_collections.heddle.ovn.plugins.module_utils.verify.packets import joined_traces, traced_packets
from tests.pipeline import layer2, layer3, namespace, plan_of, workload

MANIFESTS = (
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24")
    + workload("red", "r1", "node1")
    + workload("red", "r2", "node2")
    + namespace("routed")
    + layer3("routed", "net", "10.128.0.0/16", 24)
    + workload("routed", "c1", "node2")
    + workload("routed", "c2", "node3")
)


def test_both_legs_of_a_packet_of_each_topology() -> None:
    legs = traced_packets(plan_of(MANIFESTS))
    assert [(leg["node"], leg["datapath"]) for leg in legs] == [
        ("node1", "red_net_ovn_layer2_switch"),
        ("node2", "red_net_ovn_layer2_switch"),
        ("node2", "routed_net_node2"),
        ("node3", "routed_net_transit_switch"),
    ]
    assert legs[0]["title"] == "red/r1 -> red/r2 (network red_net, 10.0.0.3 -> 10.0.0.4)"
    assert legs[0]["microflow"] == legs[1]["microflow"]
    assert legs[3]["microflow"] == (
        'inport == "routed_net_tstor-node2" && eth.src == 0a:58:64:58:00:03 && eth.dst == 0a:58:64:58:00:04 && '
        "ip4.src == 10.128.1.3 && ip4.dst == 10.128.2.3 && ip.ttl == 63 && udp && udp.src == 7655 && udp.dst == 7654"
    )


def test_workloads_on_one_host_send_nothing_between_hosts() -> None:
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24")
    assert traced_packets(plan_of(text + workload("red", "r1", "node1") + workload("red", "r2", "node1"))) == []


def test_packets_of_networks_without_ipam_are_not_traced() -> None:
    text = namespace("red") + layer2("red", "wire", "").replace(
        "Primary, subnets: ['']", "Secondary, ipam: {mode: Disabled}"
    )
    for name, node, address in (("r1", "node1", "192.0.2.1/24"), ("r2", "node2", "2001:db8::2/64")):
        text += workload("red", name, node, [{"name": "wire", "ips": [address]}])
    text = text.replace(namespace("red"), namespace("red", primary=False))
    assert [leg["title"] for leg in traced_packets(plan_of(text)) if "red_wire" in leg["title"]] == []


def test_text() -> None:
    traces = [
        {"title": "c -> d", "node": "node1", "place": 2, "text": "no such file"},
        {"title": "a -> b", "node": "node1", "place": 0, "text": "out\n"},
        {"title": "a -> b", "node": "node2", "place": 1, "text": "in"},
    ]
    assert (
        joined_traces({"node1": traces[:2], "node2": traces[2:]})
        == """\
== a -> b
-- on node1
out

-- on node2
in

== c -> d
-- on node1
no such file

"""
    )
    assert joined_traces({}) == ""


def test_a_packet_that_policies_refuse_is_not_traced() -> None:
    """A workload of red2 receives from its own namespace only; one network spans both."""
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["red1", "red2"]}
    network = {
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": "red"},
        "spec": {
            "namespaceSelector": {"matchExpressions": [names]},
            "network": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.0.0.0/24"]}},
        },
    }  # fmt: skip
    policy = {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "own", "namespace": "red2"},
        "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]},
    }  # fmt: skip
    text = namespace("red1") + namespace("red2")
    text += "".join(f"---\n{json.dumps(document)}\n---\n" for document in (network, policy))
    text += workload("red1", "a", "node1") + workload("red2", "b", "node2")
    assert [leg["title"].partition(" (")[0] for leg in traced_packets(plan_of(text))] == ["red2/b -> red1/a"] * 2
