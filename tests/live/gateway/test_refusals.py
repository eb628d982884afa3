# SPDX-License-Identifier: Apache-2.0
"""Refusals by Services without endpoints, as those beyond their networks see them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, NODE
from tests.live.gateway.packets import RESET, SYN, TCP, UDP, Packet
from tests.live.gateway.test_node_ports import OUTSIDE, POOL, exposed
from tests.live.gateway.test_services import NAMES, TENANTS, UNREACHABLE, address, received
from tests.pipeline import workload

PROTOCOLS = {TCP: "TCP", UDP: "UDP"}


def closed(name: str, selector: str, policy: str) -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: closed, namespace: {name}}}\n"
        f"spec: {{type: LoadBalancer, ipFamilyPolicy: RequireDualStack, selector: {{app: {selector}}}, "
        f"externalTrafficPolicy: {policy}, externalIPs: [{', '.join(map(repr, OUTSIDE.values()))}], ports: ["
        f"{{name: tcp, port: {1080 + NAMES.index(name)}}}, "
        f"{{name: udp, protocol: UDP, port: {1180 + NAMES.index(name)}}}]}}\n"
    )


def elsewhere(name: str) -> str:
    """An endpoint on another node."""
    return workload(name, "far", "node2").replace(f"namespace: {name}}}", f"namespace: {name}, labels: {{app: far}}}}")


def described(zone, name: str, which: str) -> dict:
    return zone.plan["services"]["default" if name == "plain" else f"{name}_net"][f"{name}/{which}"]


def entrances(zone, name: str, family: int) -> Iterator[tuple[int, str, int]]:
    """Protocol, address and port of what an external host may send to by way of node1."""
    entry = described(zone, name, "closed")
    held = [one["address"] for one in entry["external"]["load_balancer"] if one["node"] == "node1"]
    for port in entry["ports"]:
        protocol = next(number for number, text in PROTOCOLS.items() if text == port["protocol"])
        yield protocol, NODE[family], port["node_port"]
        yield protocol, OUTSIDE[family], port["port"]
        yield from ((protocol, one, port["port"]) for one in held if (":" in one) == (family == 6))


def is_refusal(packet, request: Packet) -> bool:
    """Whether it is the TCP reset or the ICMP error for a request, with the address that was asked as its source."""
    if not isinstance(packet, Packet) or (packet.source, packet.target) != (request.target, request.source):
        return False
    if request.protocol == TCP:
        ports = packet.source_port, packet.target_port
        return packet.protocol == TCP and packet.kind & RESET and ports == (request.target_port, request.source_port)
    return (packet.protocol, packet.kind) == UNREACHABLE[6 if ":" in request.target else 4]


def expect_refusal(machine, interface: str, request: Packet) -> None:
    known = len(machine.sent(interface))
    machine.receive(interface, request.encode())
    machine.exchange(
        lambda: any(is_refusal(one, request) for one in machine.sent(interface)[known:]), f"the refusal of {request}"
    )


@pytest.mark.parametrize(
    ("selector", "policy"),
    [
        ("nothing", "Cluster"),
        ("nothing", "Local"),
        # All endpoints are on another node.
        ("far", "Local"),
    ],
)
@pytest.mark.parametrize("family", [4, 6])
def test_an_external_host_is_refused_at_once(host, family, selector, policy):
    text = TENANTS + POOL + "".join(closed(name, selector, policy) + elsewhere(name) for name in NAMES)
    machine, zone = host(text)
    for name in NAMES:
        for number, (protocol, target, port) in enumerate(entrances(zone, name, family)):
            kind, payload = (SYN, b"") if protocol == TCP else (0, b"question")
            source_port = 4000 + 10 * NAMES.index(name) + number
            expect_refusal(
                machine, UPLINK,
                Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], target, protocol, source_port, port, kind, payload),
            )  # fmt: skip


@pytest.mark.parametrize("family", [4, 6])
def test_the_host_is_refused_at_once(host, family):
    """Its kernel has translated to the cluster IP; here the test does what the kernel does."""
    text = TENANTS + POOL + "".join(closed(name, "nothing", "Cluster") for name in NAMES)
    machine, zone = host(text, userspace_interfaces=[UPLINK])
    for name in NAMES:
        cluster_ip = next(one for one in described(zone, name, "closed")["addresses"] if (":" in one) == (family == 6))
        for port in described(zone, name, "closed")["ports"]:
            protocol, kind, payload = (TCP, SYN, b"") if port["protocol"] == "TCP" else (UDP, 0, b"question")
            expect_refusal(
                machine, BRIDGE,
                Packet(MAC, NEXT_HOP_MAC, NODE[family], cluster_ip, protocol, 4000, port["port"], kind, payload),
            )  # fmt: skip


@pytest.mark.parametrize("family", [4, 6])
def test_a_node_port_works_when_the_first_endpoint_comes_to_the_node(host, family):
    """northd drops what is for a router's own address when it was taken from one of its load balancers (OVN 25.03)."""
    more = "".join(exposed(name, "Local") for name in NAMES)
    without = (TENANTS + more).replace("spec: {ports: [{name: dns", "spec: {ready: false, ports: [{name: dns")
    machine, zone = host(without)
    for number, (text, has_endpoint) in enumerate(((TENANTS + more, True), (without, False), (TENANTS + more, True))):
        assert zone.apply(text).changed
        for name in NAMES:
            port = described(zone, name, "web")["ports"][0]["node_port"]
            request = Packet(
                NEXT_HOP_MAC, MAC, EXTERNAL[family], NODE[family], UDP, 4000 + number, port, payload=b"question"
            )
            if not has_endpoint:
                expect_refusal(machine, UPLINK, request)
                continue
            known = len(received(machine, name, "b"))
            machine.receive(UPLINK, request.encode())
            machine.exchange(lambda name=name, known=known: len(received(machine, name, "b")) > known, name)
            assert received(machine, name, "b")[-1].target == address(zone, name, "b", family)


def beyond(name: str, kind: str) -> str:
    """A Service whose only endpoint, which a slice has, is beyond the network."""
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: far, namespace: {name}}}\n"
        f"spec: {{type: {kind}, ipFamilyPolicy: RequireDualStack, ports: [{{protocol: UDP, port: 53}}]}}\n"
        + "".join(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
            f"metadata: {{name: far-{version}, namespace: {name}, labels: {{kubernetes.io/service-name: far}}}}\n"
            f"addressType: IPv{version}\nports: [{{protocol: UDP, port: 53}}]\n"
            f"endpoints: [{{addresses: [{target!r}]}}]\n"
            for version, target in ((4, "198.51.100.53"), (6, "2001:db8:99::53"))
        )
    )


@pytest.mark.parametrize("family", [4, 6])
def test_a_node_port_works_when_another_service_has_none_any_more(host, family):
    """Nor then, when the other one keeps its load balancer."""
    # With the third Service the network stays on the same nodes, so that northd computes this change alone.
    text = TENANTS + "".join(exposed(name, "Local") + closed(name, "web", "Cluster") for name in NAMES)
    machine, zone = host(text + "".join(beyond(name, "NodePort") for name in NAMES))
    assert zone.apply(text + "".join(beyond(name, "ClusterIP") for name in NAMES)).changed
    for name in NAMES:
        port = described(zone, name, "web")["ports"][0]["node_port"]
        machine.receive(UPLINK, Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], NODE[family], UDP, 4000, port).encode())
        machine.exchange(lambda name=name: received(machine, name, "b"), name)
