# SPDX-License-Identifier: Apache-2.0
"""Packets on secondary networks with MultiNetworkPolicies."""

from __future__ import annotations

import json

import pytest

from tests.live.policy.exchange import Exchange
from tests.pipeline import namespace, workload

NAMES = ("web", "api", "other")
NETWORK = "cluster_udn_san"
ADDRESSES = {"web": 1, "api": 2, "other": 3}
LOCALNET = {"topology": "Localnet", "localnet": {"role": "Secondary", "physicalNetworkName": "physnet",
                                                 "ipam": {"mode": "Disabled"}}}  # fmt: skip
LAYER2 = {"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.60.0.0/24", "fd60::/64"]}}


def policy(family: int, address: str) -> dict:
    block = {"ipBlock": {"cidr": f"{address}/{32 if family == 4 else 128}"}}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy",
        "metadata": {"name": "p", "namespace": "web", "annotations": {"k8s.v1.cni.cncf.io/policy-for": "san"}},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [block]}]},
    }  # fmt: skip


def manifests(network: dict, *policies: dict) -> str:
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(NAMES)}
    document = {
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": "san"},
        "spec": {"namespaceSelector": {"matchExpressions": [names]}, "network": network},
    }  # fmt: skip
    text = f"---\n{json.dumps(document)}\n"
    for name, number in ADDRESSES.items():
        ips = [f"10.60.0.{number}/24", f"fd60::{number}/64"]
        chosen = [{"name": "san", "ips": ips}] if network == LOCALNET else "san"
        text += namespace(name, primary=False) + workload(name, "a", "node1", chosen)
    return text + "".join(f"---\n{json.dumps(one)}\n" for one in policies)


@pytest.mark.parametrize(("network", "family"), [(LOCALNET, 4), (LOCALNET, 6), (LAYER2, 4)],
                         ids=["localnet-4", "localnet-6", "layer2-4"])  # fmt: skip
def test_policy_decides_and_replies_pass(host, network, family):
    both = Exchange(*host(manifests(network)), family, NETWORK)
    permitted = both.packet("api", "web", (1, 1), "").source
    both.apply(manifests(network, policy(family, permitted)))
    # What web opens is open, and its reply passes, also where nothing may be opened to web.
    both.send("other", both.packet("other", "web", (5000, 53), "refused"))
    both.send("web", both.packet("web", "other", (6000, 53), "opened by web"))
    both.wait("other", "opened by web")
    both.send("other", both.packet("other", "web", (53, 6000), "reply"))
    both.wait("web", "reply")
    both.send("api", both.packet("api", "web", (5000, 53), "permitted"))
    both.wait("web", "permitted")
    closed = policy(family, permitted)
    both.apply(manifests(network, {**closed, "spec": {**closed["spec"], "ingress": []}}))
    both.send("api", both.packet("api", "web", (5001, 53), "not any more"))
    both.send("web", both.packet("web", "other", (6001, 53), "opened again"))
    both.wait("other", "opened again")
    both.send("other", both.packet("other", "web", (53, 6001), "second reply"))
    both.wait("web", "second reply")
    assert both.received("web") == {"reply", "permitted", "second reply"}
