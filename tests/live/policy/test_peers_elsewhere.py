# SPDX-License-Identifier: Apache-2.0
"""MultiNetworkPolicies whose peers are on another host, which has a primary network that this one lacks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.live.gateway.conftest import UPLINK
from tests.live.policy.exchange import Exchange
from tests.pipeline import layer2, namespace, workload

NODES = {"web": "node1", "peer": "node2", "other": "node2"}
NETWORK = "cluster_udn_san"
LOCALNET = {
    "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": "san"},
    "spec": {"namespaceSelector": {}, "network": {"topology": "Localnet", "localnet": {
        "role": "Secondary", "physicalNetworkName": "physnet", "subnets": ["10.60.0.0/24", "fd60::/64"]}}},
}  # fmt: skip
POLICY = {
    "apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy",
    "metadata": {"name": "p", "namespace": "web", "annotations": {"k8s.v1.cni.cncf.io/policy-for": "san"}},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "peer"}}}]}]},
}  # fmt: skip
MANIFESTS = "".join(
    namespace(name) + layer2(name, "net", "10.0.0.0/24") + workload(name, "a", node, "san")
    for name, node in NODES.items()
) + "".join(f"---\n{json.dumps(one)}\n" for one in (LOCALNET, POLICY))  # fmt: skip


@pytest.mark.parametrize("family", [4, 6])
def test_packets_of_a_selected_peer_arrive_and_those_of_others_do_not(host, family):
    both = Exchange(*host(MANIFESTS), family, NETWORK)
    assert both.zone.plan["networks"]["peer_net"]["nodes"] == ["node2"]
    web = both.zone.interface("web/a", NETWORK)
    # What is refused is sent first, so that it had its time.
    for name in ("other", "peer"):
        packet = both.packet(name, "web", (5000, 53), f"of {name}")
        both.machine.receive(UPLINK, replace(packet, target_mac=web["mac"]).encode())
    both.wait("web", "of peer")
    assert both.received("web") == {"of peer"}
