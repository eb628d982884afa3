# SPDX-License-Identifier: Apache-2.0
"""Packets on secondary networks with MultiNetworkPolicies."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.live.gateway.packets import UDP, Packet
from tests.live.policy.exchange import Exchange
from tests.pipeline import namespace, workload

NAMES = ("web", "api", "other")
NETWORK = "cluster_udn_san"
ADDRESSES = {"web": 1, "api": 2, "other": 3}
LOCALNET = {"topology": "Localnet", "localnet": {"role": "Secondary", "physicalNetworkName": "physnet",
                                                 "ipam": {"mode": "Disabled"}}}  # fmt: skip
LAYER2 = {"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.60.0.0/24", "fd60::/64"]}}
LAYER3 = {
    "topology": "Layer3",
    "layer3": {"role": "Secondary", "subnets": [{"cidr": "10.60.0.0/16", "hostSubnet": 24},
                                               {"cidr": "fd60::/60", "hostSubnet": 64}]},
}  # fmt: skip
WIRE = {"topology": "Layer2", "layer2": {"role": "Secondary", "ipam": {"mode": "Disabled"}}}
WITHOUT_SUBNETS = (LOCALNET, WIRE)
SOME = Packet("", "", "", "", UDP, 5000)
NAMED = "ports: [{name: dns, protocol: UDP, containerPort: 53}], "


def policy(family: int, address: str) -> dict:
    block = {"ipBlock": {"cidr": f"{address}/{32 if family == 4 else 128}"}}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy",
        "metadata": {"name": "p", "namespace": "web", "annotations": {"k8s.v1.cni.cncf.io/policy-for": "san"}},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [block]}]},
    }  # fmt: skip


def addresses(name: str) -> list[str]:
    return [f"10.60.0.{ADDRESSES[name]}", f"fd60::{ADDRESSES[name]}"]


def manifests(network: dict, *policies: dict, requesting: tuple = NAMES) -> str:
    """`requesting` are the workloads that request their addresses, where the network has no subnets."""
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(NAMES)}
    document = {
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": "san"},
        "spec": {"namespaceSelector": {"matchExpressions": [names]}, "network": network},
    }  # fmt: skip
    text = f"---\n{json.dumps(document)}\n"
    for name in NAMES:
        ips = [f"{one}/{64 if ':' in one else 24}" for one in addresses(name)]
        chosen = [{"name": "san", "ips": ips}] if network in WITHOUT_SUBNETS and name in requesting else "san"
        own = workload(name, "a", "node1", chosen).replace("spec: {", f"spec: {{{NAMED}")
        text += namespace(name, primary=False) + own
    return text + "".join(f"---\n{json.dumps(one)}\n" for one in policies)


@pytest.mark.parametrize(("network", "family"),
                         [(LOCALNET, 4), (LOCALNET, 6), (LAYER2, 4), (LAYER3, 4), (LAYER3, 6)],
                         ids=["localnet-4", "localnet-6", "layer2-4", "layer3-4", "layer3-6"])  # fmt: skip
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


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("network", WITHOUT_SUBNETS, ids=["localnet", "layer2"])
def test_named_ports_where_the_address_of_a_workload_is_not_known(host, network, family):
    """Rules for what web receives match its port, those for what it sends the address of api, which requests it."""
    both = Exchange(*host(manifests(network, requesting=("api",))), family, NETWORK)
    version = int(family == 6)

    def packet(source: str, target: str, port: int):
        ends = [both.zone.interface(f"{name}/a", NETWORK) for name in (source, target)]
        own, peer = (addresses(name)[version] for name in (source, target))
        return replace(SOME, source_mac=ends[0]["mac"], target_mac=ends[1]["mac"], source=own, target=peer,
                       target_port=port, payload=f"{source} to {target} {port}".encode())  # fmt: skip

    ports = [{"port": "dns", "protocol": "UDP"}]
    closed = policy(family, addresses("api")[version])
    ingress = [{**closed["spec"]["ingress"][0], "ports": ports}]
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": ingress, "egress": [{"ports": ports}]}
    both.apply(manifests(network, {**closed, "spec": spec}, requesting=("api",)))
    # Of each pair the one that passes is the last one, so that what is refused had its time.
    both.send("api", packet("api", "web", 54))
    both.send("other", packet("other", "web", 53))
    both.send("api", packet("api", "web", 53))
    both.wait("web", "api to web 53")
    both.send("web", packet("web", "api", 54), packet("web", "other", 53), packet("web", "api", 53))
    both.wait("api", "web to api 53")
    assert both.received("web") == {"api to web 53"}
    assert both.received("api") == {"web to api 53"}
    assert both.received("other") == set()
