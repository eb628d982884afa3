# SPDX-License-Identifier: Apache-2.0
"""Packets of the endpoints of Services with an EgressService through OVN and the provider bridge, and back.

node1 is the host of all of them. Networks with equal subnets, workloads with equal addresses: one is an endpoint, the
other one is none. On the default network the test is the host's kernel.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, NAMES, NODE, conversations, request_of
from tests.live.gateway.packets import SYN, TCP, UDP, Packet

# The namespaces with an EgressService, on Layer2, Layer3 and the default network.
SERVED = ("flat", "deep", "plain")
POOL = {
    "apiVersion": "heddle.dev/v1", "kind": "LoadBalancerPool", "metadata": {"name": "provider"},
    "spec": {"subnets": ["192.0.2.100/30", "2001:db8::100/126"]},
}  # fmt: skip
OTHER_NODE = {4: "192.0.2.12", 6: "2001:db8::c"}
MANAGEMENT = "ovn-k8s-mp0"


def documents(name: str) -> list[dict]:
    service = {
        "selector": {"app": "web"}, "type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack",
        "ports": [{"port": 80}],
    }  # fmt: skip
    metadata, selector = {"name": "web", "namespace": name}, {"matchLabels": {"kubernetes.io/hostname": "node1"}}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
        {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressService", "metadata": metadata,
         "spec": {"nodeSelector": selector}},
    ]  # fmt: skip


def manifests() -> str:
    text = re.sub(r"(kind: Workload\nmetadata: {name: a, namespace: \w+)}", r"\1, labels: {app: web}}", MANIFESTS)
    found = [POOL, *(one for name in SERVED for one in documents(name))]
    return text + "".join(f"---\n{json.dumps(one)}\n" for one in found)


def addresses_of(zone, name: str) -> dict[int, str]:
    """The addresses of the load balancer of a namespace's Service, by family."""
    network = "default" if name == "plain" else f"{name}_net"
    held = zone.plan["services"][network][f"{name}/web"]["external"]["load_balancer"]
    assert {one["node"] for one in held} == {"node1"}
    return {6 if ":" in one["address"] else 4: one["address"] for one in held}


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", ["local", "shared"], scope="module")
def test_user_defined_networks_leave_with_the_load_balancer_and_get_their_replies(shared_host, family, mode):
    machine, zone = shared_host(manifests(), mode)
    assert not machine.apply(zone.plan).changed
    expected = {name: addresses_of(zone, name)[family] for name in ("flat", "deep")}
    if mode == "shared":
        expected |= dict.fromkeys(("even", "also"), NODE[family])
    for seen in conversations(machine, zone, family, expected):
        assert {name: packet.source for name, packet in seen.items()} == expected
        assert {(packet.source_mac, packet.target_mac) for packet in seen.values()} == {(MAC, NEXT_HOP_MAC)}
        for name in ("flat", "deep"):
            # Apart from the ports of Services, which the load balancer has at the same address.
            assert seen[name].is_echo or 32768 <= seen[name].source_port <= 60999


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", ["local", "shared"], scope="module")
def test_the_default_network_leaves_by_the_kernel_of_the_host(shared_host, family, mode):
    machine, zone = shared_host(manifests(), mode)
    external = addresses_of(zone, "plain")[family]
    request = request_of(zone, "plain", UDP, family)
    machine.receive("if-plain", request.encode())

    def at(interface: str, **wanted) -> list[Packet]:
        found = [one for one in machine.sent(interface) if isinstance(one, Packet) and one.payload == b"plain"]
        return [one for one in found if all(getattr(one, name) == value for name, value in wanted.items())]

    machine.exchange(lambda: at(MANAGEMENT), "the packet at the management port")
    [arrived] = at(MANAGEMENT)
    assert (arrived.source, arrived.target) == (request.source, EXTERNAL[family])
    # What the kernel does: another address, and a route.
    left = replace(arrived, source=external, source_port=40000, source_mac=MAC, target_mac=NEXT_HOP_MAC)
    machine.receive(BRIDGE, left.encode())
    machine.exchange(lambda: at(UPLINK, source=external), "the packet on the provider network")
    machine.receive(UPLINK, left.answer().encode())
    machine.exchange(lambda: at(BRIDGE, target=external), "the reply at the host")
    machine.receive(MANAGEMENT, arrived.answer().encode())
    machine.exchange(lambda: at("if-plain", source=EXTERNAL[family]), "the reply at the workload")
    [answer] = at("if-plain", source=EXTERNAL[family])
    assert (answer.target, answer.target_port) == (request.source, request.source_port)


@pytest.mark.parametrize("family", [4, 6])
def test_other_nodes_are_reached_with_the_address_of_the_node(shared_host, family):
    machine, zone = shared_host(manifests(), "shared")
    for name in SERVED:
        request = replace(request_of(zone, name, UDP, family), target=OTHER_NODE[family])
        machine.receive(f"if-{name}", request.encode())

    def seen() -> dict[str, str]:
        found = [one for one in machine.sent(UPLINK) if isinstance(one, Packet) and one.target == OTHER_NODE[family]]
        return {one.payload.decode(): one.source for one in found}

    machine.exchange(lambda: len(seen()) == len(SERVED), "what was sent to the other node",
                     holders=(OTHER_NODE[family],))  # fmt: skip
    assert seen() == dict.fromkeys(SERVED, NODE[family])


@pytest.mark.parametrize("family", [4, 6])
def test_new_connections_to_the_address_reach_neither_the_host_nor_a_workload(shared_host, family):
    machine, zone = shared_host(manifests(), "shared")
    last = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], NODE[family], UDP, 4000, 5999, payload=b"last")
    for name in SERVED:
        address = addresses_of(zone, name)[family]
        for protocol, kind in ((UDP, 0), (TCP, SYN)):
            one = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], address, protocol, 4000, 5000, kind, b"intruder")
            machine.receive(UPLINK, one.encode())
    machine.receive(UPLINK, last.encode())
    machine.exchange(lambda: last in machine.sent(BRIDGE), "the packet to the node at the host")
    held = {addresses_of(zone, name)[family] for name in SERVED}
    for interface in (BRIDGE, *(f"if-{name}" for name in NAMES)):
        assert not [one for one in machine.sent(interface) if isinstance(one, Packet) and one.target in held]
