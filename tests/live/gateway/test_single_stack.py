# SPDX-License-Identifier: Apache-2.0
"""Networks of one address family, on hosts and with settings of both or of the same one only.

Services by all ways, policies and EgressIPs, on Layer2 and Layer3 networks with equal subnets and on the default one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.store.settings import DEFAULTS
from tests.live.gateway.conftest import EGRESS_HOST, MAC, NEXT_HOP_MAC, UPLINK, interface_of
from tests.live.gateway.external_host import EXTERNAL, NODE, request_of
from tests.live.gateway.packets import RESET, TCP, UDP, Packet
from tests.live.gateway.test_egress_ips import EGRESS, egress_ip
from tests.live.gateway.test_entrances import Exchange, entrances
from tests.live.gateway.test_node_ports import OUTSIDE, PORTS
from tests.live.gateway.test_services import NAMES, UNREACHABLE, address, cluster_ip, interface, received, request
from tests.live.gateway.test_services import server as endpoint
from tests.matrix import pairwise
from tests.pipeline import namespace, workload

SUBNETS = {4: "10.50.0.0/24", 6: "fd50::/64"}
RANGES = {4: ("10.50.0.0/16", 24), 6: ("fd50::/60", 64)}
POOLS = {4: "192.0.2.200/29", 6: "2001:db8::a00/125"}
# Services of the others have, or prefer, both families, of which their networks have one.
SINGLE = ("flat", "deep", "plain")
LOCAL = ("even", "also")
# Workloads that leave with the address of their node.
CLIENTS = {"flat": "even", "deep": "also", "plain": "even", "even": "also", "also": "even"}


def document(kind: str, name: str, spec: dict, where: str = "", version: str = "v1") -> str:
    metadata = {"name": name, **({"namespace": where} if where else {})}
    return f"---\n{json.dumps({'apiVersion': version, 'kind': kind, 'metadata': metadata, 'spec': spec})}\n"


def network(name: str, family: int) -> str:
    own = {"role": "Primary", "subnets": [SUBNETS[family]]}
    topology = "Layer2"
    if name in ("deep", "also"):
        topology = "Layer3"
        own["subnets"] = [dict(zip(("cidr", "hostSubnet"), RANGES[family], strict=True))]
    spec = {"topology": topology, topology.lower(): own}
    return namespace(name) + document("UserDefinedNetwork", "net", spec, name, "k8s.ovn.org/v1")


def services(name: str, family: int) -> str:
    families = {"ipFamilyPolicy": "SingleStack", "ipFamilies": [f"IPv{family}"]}
    if name not in SINGLE:
        families = {"ipFamilyPolicy": "PreferDualStack"}
    exposed = {
        **families, "type": "LoadBalancer", "selector": {"app": "web"}, "externalIPs": [OUTSIDE[family]],
        "externalTrafficPolicy": "Local" if name in LOCAL else "Cluster",
        "ports": [{"protocol": "UDP", "port": PORTS[name] - 29000, "targetPort": 5353, "nodePort": PORTS[name]}],
    }  # fmt: skip
    inner = [{"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 5353}, {"name": "http", "port": 80}]
    return (
        document("Service", "web", exposed, name)
        + document("Service", "inner", {**families, "selector": {"app": "web"}, "ports": inner}, name)
        + document("Service", "none", {**families, "selector": {"app": "no"}, "ports": inner}, name)
    )


def policy(name: str, family: int) -> str:
    """The endpoint accepts UDP at one port, from all addresses of the family."""
    everyone = {4: "0.0.0.0/0", 6: "::/0"}[family]
    rule = {"from": [{"ipBlock": {"cidr": everyone}}], "ports": [{"protocol": "UDP", "port": 5353}]}
    spec = {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"], "ingress": [rule]}
    return document("NetworkPolicy", "dns", spec, name, "networking.k8s.io/v1")


def manifests(family: int) -> str:
    networks = "".join(network(name, family) for name in NAMES if name != "plain")
    return (
        networks + namespace("plain", primary=False)
        + document("LoadBalancerPool", "pool", {"subnets": [POOLS[family]]}, version="heddle.dev/v1")
        + "".join(workload(name, "a", "node1") + endpoint(name, "b") + services(name, family) for name in NAMES)
        + "".join(policy(name, family) for name in LOCAL)
        + "".join(egress_ip(name, own) for name, own in EGRESS[family].items())
    )  # fmt: skip


def of_family(name: str, family: int) -> list[str]:
    return [one for one in DEFAULTS[name] if (":" in one) == (family == 6)]


def settings_of(family: int) -> dict[str, list[str]]:
    """Return settings of one family only."""
    return {name: of_family(name, family) for name in DEFAULTS if name.endswith("_subnets")}


class SingleStack(Exchange):
    """A host with networks of one family; `cluster` is which families settings and hosts have."""

    def __init__(self, host, mode: str, family: int, cluster: str) -> None:
        more = {}
        if cluster == "single":
            more = {"settings": settings_of(family), "families": (family,)}
        super().__init__(
            lambda _text, mode: host(manifests(family), mode, labels=EGRESS_HOST, **more), mode, "", family
        )

    def inner(self, name: str) -> None:
        """A workload gets an answer by a cluster IP, and a refusal by one without endpoints."""
        own = request(self.zone, name, "a", cluster_ip(self.zone, name, "inner", self.family))
        self.machine.receive(interface_of(name), own.encode())
        assert self.served(name, own.payload).source == own.source
        self.answered(name, own)
        target = cluster_ip(self.zone, name, "none", self.family)
        for protocol in (UDP, TCP):
            sent = request(self.zone, name, "a", target, protocol, source_port=5999)
            self.machine.receive(interface_of(name), replace(sent, payload=b"refused").encode())
        wanted = {UNREACHABLE[self.family], (TCP, RESET)}

        def kinds() -> set:
            return {(one.protocol, one.kind & ~0x10) for one in received(self.machine, name, "a")}

        self.until(lambda: kinds() >= wanted, f"the refusals for {name}")

    def outer(self, name: str) -> None:
        """An external host gets answers from where it asked, and the policy Local keeps its address."""
        for number, target in enumerate(entrances(self.zone, name, self.family)):
            if not target.here:
                continue
            text = f"external to {name} {target.kind}".encode()
            ends = EXTERNAL[self.family], target.address, UDP, 4000 + number, target.port
            sent = Packet(NEXT_HOP_MAC, MAC, *ends, payload=text)
            self.machine.receive(UPLINK, sent.encode())
            seen = self.served(name, text)
            assert (seen.source == EXTERNAL[self.family]) == (name in LOCAL), seen
            self.until(lambda text=text: self.at(UPLINK, text), f"the answer to {text}")
            [answer] = self.at(UPLINK, text)
            assert answer == replace(sent.answer(), source_mac=MAC, target_mac=NEXT_HOP_MAC)

    def from_elsewhere(self, name: str, client: str) -> None:
        """A workload of another network gets answers by its own host."""
        for target in entrances(self.zone, name, self.family):
            text = f"{client} to {name} {target.kind}".encode()
            sent = self.ask(client, target, text)
            self.served(name, text) if target.here else self.left(sent)
            self.answered(client, sent)

    def policy(self, name: str) -> None:
        """A policy decides about ports of the endpoint."""
        ends = [interface(self.zone, name, which)["mac"] for which in "ab"]
        ends += [address(self.zone, name, which, self.family) for which in "ab"]
        for port, text in ((5354, b"denied"), (5353, b"permitted")):
            self.machine.receive(interface_of(name), Packet(*ends, UDP, 6000, port, payload=text).encode())
        self.until(lambda: self.at(f"if-{name}-b", b"permitted"), f"a packet to {name}")
        assert not self.at(f"if-{name}-b", b"denied")

    def egress(self, name: str) -> None:
        """A workload leaves with its EgressIP, or with the address of its node, and gets its reply."""
        sent = request_of(self.zone, name, UDP, self.family)
        self.machine.receive(interface_of(name), sent.encode())
        self.until(lambda: self.at(UPLINK, sent.payload), f"what {name} sent")
        [seen] = self.at(UPLINK, sent.payload)
        assert seen.source == EGRESS[self.family].get(name, NODE[self.family])
        self.machine.receive(UPLINK, seen.answer().encode())
        self.answered(name, sent)


@pytest.mark.parametrize(
    ("mode", "family", "cluster"), pairwise(product(["shared", "local"], [4, 6], ["dual", "single"]))
)
def test_services_policies_and_egress_ips(host, mode, family, cluster):
    exchange = SingleStack(host, mode, family, cluster)
    plan = exchange.zone.plan
    assert {tuple(one["families"]) for name, one in plan["networks"].items() if name != "default"} == {(family,)}
    assert plan["networks"]["default"]["families"] == ([4, 6] if cluster == "dual" else [family])
    for name in NAMES:
        exchange.inner(name)
        exchange.outer(name)
        exchange.from_elsewhere(name, CLIENTS[name])
    for name in LOCAL:
        exchange.policy(name)
    # What leaves without an EgressIP in local gateway mode is the kernel's (test_local_mode.py).
    for name in NAMES if mode == "shared" else EGRESS[family]:
        exchange.egress(name)
