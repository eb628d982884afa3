# SPDX-License-Identifier: Apache-2.0
"""Refusals by Services without endpoints, as those beyond their networks see them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, NODE
from tests.live.gateway.packets import RESET, SYN, TCP, UDP, Packet
from tests.live.gateway.test_node_ports import OUTSIDE, POOL, exposed
from tests.live.gateway.test_services import NAMES, TENANTS, UNREACHABLE, address, received
from tests.pipeline import workload

PROTOCOLS = {TCP: "TCP", UDP: "UDP"}
# Ports of the Service `closed`, the first for each protocol; ports of workloads.
FIRST = {"TCP": 1080, "UDP": 1180}
OPEN = {"TCP": 8080, "UDP": 5353}
# An external host beside EXTERNAL.
OTHER_EXTERNAL = {4: "198.51.100.8", 6: "2001:db8:99::8"}
# In the subnets of user-defined networks; it is beyond those of the default network, whose load balancers then differ
# by node.
ENDPOINT = {4: "10.50.0.200", 6: "fd50::200"}


def exposed_ports(name: str, policy: str, selector: str, ports: list[str]) -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: closed, namespace: {name}}}\n"
        f"spec: {{type: LoadBalancer, ipFamilyPolicy: RequireDualStack, {selector}"
        f"externalTrafficPolicy: {policy}, externalIPs: [{', '.join(map(repr, OUTSIDE.values()))}], "
        f"ports: [{', '.join(ports)}]}}\n"
    )


def port_of(name: str, protocol: str, target: str | int, more: int = 0) -> str:
    """A port of the Service `closed`, named by its number."""
    number = FIRST[protocol] + NAMES.index(name) + more
    return f"{{name: p{number}, protocol: {protocol}, port: {number}, targetPort: {target}}}"


def closed(name: str, selector: str, policy: str) -> str:
    """A Service of a TCP and a UDP port with the endpoints that have the label."""
    ports = [port_of(name, protocol, target) for protocol, target in OPEN.items()]
    return exposed_ports(name, policy, f"selector: {{app: {selector}}}, ", ports)


def partly_closed(name: str, policy: str) -> str:
    """One of two ports of each protocol with an endpoint, and one with a target port that no workload has."""
    ports = [port_of(name, protocol, "none") for protocol in OPEN]
    ports += [port_of(name, protocol, target, 10) for protocol, target in OPEN.items()]
    return exposed_ports(name, policy, "selector: {app: web}, ", ports)


def of_one_family(name: str, family: int) -> str:
    """A dual-stack Service with an endpoint of one family."""
    ports = [port_of(name, protocol, target) for protocol, target in OPEN.items()]
    targets = ", ".join(
        f"{{name: p{FIRST[protocol] + NAMES.index(name)}, protocol: {protocol}, port: {target}}}"
        for protocol, target in OPEN.items()
    )
    return exposed_ports(name, "Cluster", "", ports) + (
        f"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: one, namespace: {name}, "
        f"labels: {{kubernetes.io/service-name: closed}}}}\naddressType: IPv{family}\n"
        f"ports: [{targets}]\nendpoints: [{{addresses: [{ENDPOINT[family]!r}]}}]\n"
    )


def elsewhere(name: str) -> str:
    """An endpoint on another node."""
    return workload(name, "far", "node2").replace(f"namespace: {name}}}", f"namespace: {name}, labels: {{app: far}}}}")


def described(zone, name: str, which: str) -> dict:
    return zone.plan["services"]["default" if name == "plain" else f"{name}_net"][f"{name}/{which}"]


def closed_ports(zone, name: str, family: int) -> list[dict]:
    """The ports of the Service without endpoints, with the policy Local without any on node1."""
    entry = described(zone, name, "closed")
    is_local = entry["external"]["traffic_policy"] == "Local"

    def is_endpoint(one: dict) -> bool:
        return (":" in one["address"]) == (family == 6) and (one["node"] == "node1" or not is_local)

    found = [port for port in entry["ports"] if not any(map(is_endpoint, port["endpoints"]))]
    assert {port["protocol"] for port in found} == set(PROTOCOLS.values())
    return found


def entrances(zone, name: str, family: int) -> Iterator[tuple[int, str, int]]:
    """Protocol, address and port of what an external host may send to by way of node1, and has no endpoints there."""
    entry = described(zone, name, "closed")
    held = [one["address"] for one in entry["external"]["load_balancer"] if one["node"] == "node1"]
    for port in closed_ports(zone, name, family):
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
    # The error has the beginning of the request, which distinguishes it from those of other requests.
    ports = struct.pack("!HH", request.source_port, request.target_port)
    return (packet.protocol, packet.kind) == UNREACHABLE[6 if ":" in request.target else 4] and ports in packet.payload


def expect_refusal(machine, interface: str, request: Packet) -> None:
    """Send a request each second until it is refused.

    COPP lets a node refuse 25 packets a second of all networks, so a fast machine gets no answer to some of them.
    """
    known = len(machine.sent(interface))
    machine.send_until(
        lambda: any(is_refusal(one, request) for one in machine.sent(interface)[known:]),
        interface, request.encode(), f"the refusal of {request}",
    )  # fmt: skip


# What the Services are, given a namespace and the family that is asked for.
CASES = {
    "no endpoints": lambda name, _family: closed(name, "nothing", "Cluster"),
    "ports without endpoints": lambda name, _family: partly_closed(name, "Cluster"),
    "a family without endpoints": lambda name, family: of_one_family(name, 10 - family),
}
LOCAL_CASES = {
    "no endpoints, Local": lambda name, _family: closed(name, "nothing", "Local"),
    "endpoints on another node, Local": lambda name, _family: closed(name, "far", "Local") + elsewhere(name),
    "ports without endpoints, Local": lambda name, _family: partly_closed(name, "Local"),
}
SHARED_AND_LOCAL_MODE = [
    *(("shared", case) for case in (CASES | LOCAL_CASES).values()),
    # With the policy Local packets go through the host in local gateway mode.
    *(("local", case) for case in CASES.values()),
]
CASES_OF_HOST = CASES | {name: case for name, case in LOCAL_CASES.items() if name.startswith("ports")}
NAMES_OF_CASES = [*CASES, *LOCAL_CASES, *(f"{name}, local gateway mode" for name in CASES)]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("mode", "case"), SHARED_AND_LOCAL_MODE, ids=NAMES_OF_CASES)
def test_an_external_host_is_refused_at_once(shared_host, family, mode, case):
    machine, zone = shared_host(TENANTS + POOL + "".join(case(name, family) for name in NAMES), mode)
    for name in NAMES:
        for number, (protocol, target, port) in enumerate(entrances(zone, name, family)):
            kind, payload = (SYN, b"") if protocol == TCP else (0, b"question")
            source_port = 4000 + 10 * NAMES.index(name) + number
            expect_refusal(
                machine, UPLINK,
                Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], target, protocol, source_port, port, kind, payload),
            )  # fmt: skip


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", ["shared", "local"])
def test_load_balancer_addresses_refuse_what_comes_from_the_source_ranges_only(shared_host, family, mode):
    """Node ports and external addresses refuse all."""
    ranges = ", ".join(f"{one}/{128 if ':' in one else 32}" for one in EXTERNAL.values())
    services = "".join(closed(name, "nothing", "Cluster") for name in NAMES)
    services = services.replace("externalTrafficPolicy", f"loadBalancerSourceRanges: [{ranges}], externalTrafficPolicy")
    machine, zone = shared_host(TENANTS + POOL + services, mode)
    silent = []
    for name in NAMES:
        for number, (protocol, target, port) in enumerate(entrances(zone, name, family)):
            kind, payload = (SYN, b"") if protocol == TCP else (0, b"question")
            inside = Packet(
                NEXT_HOP_MAC, MAC, EXTERNAL[family], target, protocol, 4000 + 10 * NAMES.index(name) + number, port,
                kind, payload,
            )  # fmt: skip
            beyond_ranges = replace(inside, source=OTHER_EXTERNAL[family])
            if target in (NODE[family], OUTSIDE[family]):
                expect_refusal(machine, UPLINK, beyond_ranges)
            else:
                machine.receive(UPLINK, beyond_ranges.encode())
                silent.append(beyond_ranges)
            expect_refusal(machine, UPLINK, inside)
    assert silent
    assert not [one for one in machine.sent(UPLINK) if any(is_refusal(one, request) for request in silent)]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("case", CASES_OF_HOST.values(), ids=CASES_OF_HOST)
def test_the_host_is_refused_at_once(shared_host, family, case):
    """Its kernel has translated to the cluster IP; here the test does what the kernel does."""
    text = TENANTS + POOL + "".join(case(name, family) for name in NAMES)
    machine, zone = shared_host(text, userspace_interfaces=[UPLINK])
    for name in NAMES:
        cluster_ip = next(one for one in described(zone, name, "closed")["addresses"] if (":" in one) == (family == 6))
        for port in closed_ports(zone, name, family):
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
            machine.send_until(
                lambda name=name, known=known: len(received(machine, name, "b")) > known,
                UPLINK, request.encode(), f"the request at {name}/b",
            )  # fmt: skip
            assert received(machine, name, "b")[-1].target == address(zone, name, "b", family)


def beyond(name: str, kind: str) -> str:
    """A Service whose only endpoint, which a slice has, is beyond the network; it has external addresses."""
    port = f"{{protocol: UDP, port: {53 + NAMES.index(name)}}}"
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: far, namespace: {name}}}\n"
        f"spec: {{type: {kind}, ipFamilyPolicy: RequireDualStack, "
        f"externalIPs: [{', '.join(map(repr, OUTSIDE.values()))}], ports: [{port}]}}\n"
        + "".join(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
            f"metadata: {{name: far-{version}, namespace: {name}, labels: {{kubernetes.io/service-name: far}}}}\n"
            f"addressType: IPv{version}\nports: [{port}]\n"
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
        request = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], NODE[family], UDP, 4000, port)
        machine.send_until(
            lambda name=name: received(machine, name, "b"), UPLINK, request.encode(), f"the request at {name}/b"
        )
