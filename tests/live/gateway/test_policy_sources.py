# SPDX-License-Identifier: Apache-2.0
"""Which source address policies of endpoints see, for all clients of a Service: as verify expects it.

What verify expects of packets of external hosts, of nodes and of workloads to a Service's addresses, and to its node
ports at all addresses of node1, is compared with packets: its endpoints permit the gateway router only, or all others
only.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from itertools import product

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import external_flows
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_flow import (
    EXTERNAL_TO_ENTRANCE,
    HOST_TO_ENTRANCE,
    OTHER_HOST_TO_ENTRANCE,
    TO_CLUSTER_IP,
    WORKLOAD_TO_ENTRANCE,
    ExternalFlow,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import Selection
from tests.live.gateway.conftest import MAC, NEXT_HOP_MAC, NEXT_HOPS, UPLINK, interface_of
from tests.live.gateway.external_host import EXTERNAL, NODE
from tests.live.gateway.host_kernel import HostKernel
from tests.live.gateway.packets import UDP, Packet
from tests.live.gateway.test_endpoints_beyond import CLUSTERS
from tests.live.gateway.test_entrances import OTHER_NODE
from tests.live.gateway.test_node_ports import OUTSIDE, POOL, exposed
from tests.live.gateway.test_services import NAMES, TENANTS, gateway_mac, interface, received, server
from tests.matrix import pairwise
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

# Workloads of other networks, one of them on another node, which come in at the uplink with its address.
NEAR, FAR = (
    namespace(name) + layer2(name, "net", "10.60.0.0/24", "fd60::/64") + workload(name, "a", node)
    for name, node in (("near", "node1"), ("far", "node2"))
)
KIND = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
# Enough to choose every kind of client for every network.
SEEDS = [Selection(seed=str(number)) for number in range(20)]
# Nodes on the network of a NIC of node1.
NIC = "eth3"
NIC_NETWORK = {4: "203.0.113.0/24", 6: "2001:db8:3::/64"}
SENDERS = {("node2", 4): "203.0.113.12", ("node3", 4): "203.0.113.13",
           ("node2", 6): "2001:db8:3::c", ("node3", 6): "2001:db8:3::d"}  # fmt: skip
GATEWAY_ROUTERS, ALL_OTHERS = "gateway routers", "all others"


def exposed_to_verify(name: str, policy: str) -> str:
    return exposed(name, policy).replace("targetPort: 5353", "targetPort: 7654")


def permitting(name: str, blocks: list[dict]) -> str:
    """A policy for the endpoints of a namespace's Service that permits what comes from these addresses."""
    spec = {"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [{"ipBlock": one} for one in blocks]}]}
    return f"---\n{json.dumps({**KIND, 'metadata': {'name': 'web', 'namespace': name}, 'spec': spec})}\n"


def manifests(policy: str, permitted: str) -> str:
    text = TENANTS + NEAR + FAR + POOL + "".join(exposed_to_verify(name, policy) for name in NAMES)
    networks = plan_of(text, hosts=with_gateways("shared"))["networks"]
    for name in NAMES:
        joins = networks["default" if name == "plain" else f"{name}_net"]["join_subnets"]
        blocks = [{"cidr": one} for one in joins]
        if permitted == ALL_OTHERS:
            blocks = [{"cidr": "::/0" if ":" in one else "0.0.0.0/0", "except": [one]} for one in joins]
        text += permitting(name, blocks)
    return text


class Senders:
    """Sends what verify would ask, by way of node1, each packet with a payload of its own."""

    def __init__(self, machine, zone, names=NAMES) -> None:
        self.machine, self.zone, self._numbers = machine, zone, itertools.count(1)
        networks = {name: interface(zone, name, "a")["network"] for name in (*names, "near")}
        numbers = {name: zone.plan["networks"][network]["id"] for name, network in networks.items()}
        gateways = {f"ovn-k8s-mp{number}": self._gateway(name) for name, number in numbers.items()}
        self.kernel = HostKernel(machine, zone.plan, gateways)

    def _gateway(self, name: str) -> str:
        if name in NAMES:
            return gateway_mac(self.zone, name)
        ports = {f"{kind}-{name}_net_ovn_layer2_switch" for kind in ("trtos", "rtos")}
        return next(mac for port, mac in self.zone.router_macs.items() if port in ports)

    def send(self, flow: ExternalFlow) -> bytes:
        """Send the packet of a flow; returns its payload."""
        number = next(self._numbers)
        payload = f"{number} {flow.source} {flow.target}".encode()
        if flow.kind == HOST_TO_ENTRANCE:
            self.kernel.send(flow.address, flow.port, payload, 4000 + number)
            return payload
        if flow.kind == OTHER_HOST_TO_ENTRANCE:
            ends = SENDERS[flow.source, flow.family], flow.address, UDP, 4000 + number, flow.port
            self.kernel.receive(NIC, Packet(NEXT_HOP_MAC, MAC, *ends, payload=payload))
            return payload
        name, _slash, which = flow.source.partition("/")
        if self.is_near(flow.source):
            own = interface(self.zone, name, which)
            source = next(one for one in own["addresses"] if (":" in one) == (flow.family == 6)).partition("/")[0]
            packet = Packet(own["mac"], self._gateway(name), source, flow.address, UDP, 4000 + number, flow.port)
            self.machine.receive(interface_of(name, which), replace(packet, payload=payload).encode())
            return payload
        source = EXTERNAL[flow.family] if flow.kind == EXTERNAL_TO_ENTRANCE else OTHER_NODE[flow.family]
        packet = Packet(NEXT_HOP_MAC, MAC, source, flow.address, UDP, 4000 + number, flow.port, payload=payload)
        self.machine.receive(UPLINK, packet.encode())
        return payload

    def is_near(self, name: str) -> bool:
        """Whether a sender is a workload of node1."""
        return self.zone.plan["workloads"].get(name, {}).get("node") == "node1"

    def check(self, flows: list[ExternalFlow]) -> None:
        """Send the packets of all flows and compare what arrives; what is denied is sent before what is permitted."""
        denied: list[tuple[str, bytes]] = []
        names = {one.target.partition("/")[0] for one in flows}
        for one in sorted(flows, key=lambda one: one.reach):
            name, payload = one.target.partition("/")[0], self.send(one)

            def arrived(name=name, payload=payload) -> bool:
                return any(seen.payload == payload for seen in received(self.machine, name, "b"))

            if one.reach:
                self.until(arrived, f"{payload} at the endpoint")
                sources = {seen.source for seen in received(self.machine, name, "b") if seen.payload == payload}
                assert sources <= set(one.right_sources) or not one.right_sources
            else:
                assert one.denied
                denied.append((name, payload))
        seen = {(name, packet.payload) for name in names for packet in received(self.machine, name, "b")}
        assert not seen.intersection(denied)

    def until(self, condition, what: str) -> None:
        self.machine.exchange(lambda: self.kernel.step() and condition(), what, (*NEXT_HOPS, *OTHER_NODE.values()))


# What verify may ask, by the digest of a plan: of both families at once, as most of the time is for choosing.
_ASKED: dict[str, list[ExternalFlow]] = {}


def asked(zone, family: int) -> list[ExternalFlow]:
    """What verify may ask by way of node1: of that node's own addresses, and of others where its network has them.

    Other hosts ask on the network of the NIC.
    """
    digest = zone.plan["digest"]
    if digest not in _ASKED:
        _ASKED[digest] = asked_by_plan(zone.plan)
    return [one for one in _ASKED[digest] if one.family == family]


def asked_by_plan(plan: dict) -> list[ExternalFlow]:
    held = {
        one["address"]: one["node"]
        for services in plan["services"].values()
        for service in services.values()
        for one in service["external"]["load_balancer"]
    }
    found = {}
    for selection in SEEDS:
        for one in external_flows(plan, {"external": [*EXTERNAL.values()]}, None, selection):
            if not one.protocol:
                continue
            network = "default" if one.target.startswith("plain/") else f"{one.target.partition('/')[0]}_net"
            is_near = one.runner == "node1"
            is_own = is_near and bool(one.workload) and plan["workloads"][one.workload]["interfaces"][-1][
                "network"] == network  # fmt: skip
            here = held.get(one.address, "node1") == "node1" and one.through in ("", "node1")
            by_host = one.kind == HOST_TO_ENTRANCE and is_near
            foreign = one.kind == TO_CLUSTER_IP and not is_own
            if one.kind == OTHER_HOST_TO_ENTRANCE and (is_near or NIC_NETWORK[one.family] not in one.way):
                continue
            if (here or is_own or by_host) and not foreign and (is_near or one.kind != HOST_TO_ENTRANCE):
                found[one.kind, one.source, one.address, one.port] = one
    return list(found.values())


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(
    ("cluster", "policy", "permitted"),
    pairwise(product(CLUSTERS, ("Cluster", "Local"), (GATEWAY_ROUTERS, ALL_OTHERS))),
)
def test_packets_arrive_as_verify_expects(shared_host, family, cluster, policy, permitted):
    mode, topology = cluster
    machine, zone = shared_host(manifests(policy, permitted), mode, {"layer2_topology": topology}, nics=True)
    senders, flows = Senders(machine, zone), asked(zone, family)
    kinds = {(one.kind, one.runner, one.reach) for one in flows}
    assert {kind for kind, _runner, _reach in kinds} == {
        EXTERNAL_TO_ENTRANCE, HOST_TO_ENTRANCE, OTHER_HOST_TO_ENTRANCE, WORKLOAD_TO_ENTRANCE, TO_CLUSTER_IP,
    }  # fmt: skip
    assert {one.way.partition(",")[0].partition(" on")[0].partition(" from")[0] for one in flows} >= {
        "other NIC", "management port",
    }  # fmt: skip
    assert {reach for _kind, _runner, reach in kinds} == {True, False}
    assert {one.target.partition("/")[0] for one in flows} == set(NAMES)
    senders.check(flows)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", ["shared", "local"])
def test_policies_of_a_sender_see_the_address_that_it_sends_to(shared_host, family, mode):
    """Of a workload of another network; its policy permits the node's address only."""
    text = namespace("flat") + layer2("flat", "net", "10.50.0.0/24", "fd50::/64") + workload("flat", "a", "node1")
    text += server("flat", "b") + NEAR
    peers = [{"ipBlock": {"cidr": f"{one}/{128 if ':' in one else 32}"}} for one in NODE.values()]
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": peers}]}
    policy = {**KIND, "metadata": {"name": "out", "namespace": "near"}, "spec": spec}
    text += POOL + exposed_to_verify("flat", "Cluster") + f"---\n{json.dumps(policy)}\n"
    machine, zone = shared_host(text, mode)
    flows = [one for one in asked(zone, family) if one.source == "near/a"]
    assert {one.address: one.reach for one in flows if one.address in (NODE[family], OUTSIDE[family])} == {
        NODE[family]: True, OUTSIDE[family]: False,
    }  # fmt: skip
    Senders(machine, zone, ["flat"]).check(flows)
