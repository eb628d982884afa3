# SPDX-License-Identifier: Apache-2.0
"""Refusals by Services without endpoints, as those beyond their networks see them."""

from __future__ import annotations

import itertools
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
# The first port of Services for each protocol; ports of workloads.
FIRST = {"TCP": 1080, "UDP": 1380}
OPEN = {"TCP": 8080, "UDP": 5353}
# An external host beside EXTERNAL.
OTHER_EXTERNAL = {4: "198.51.100.8", 6: "2001:db8:99::8"}
# In the subnets of user-defined networks; it is beyond those of the default network, whose load balancers then differ
# by node.
ENDPOINT = {4: "10.50.0.200", 6: "fd50::200"}


# Addresses for several Services of each network.
LARGE_POOL = POOL.replace("192.0.2.200/29", "192.0.2.192/26").replace("a00/125", "a00/122")


def exposed_ports(name: str, number: int, policy: str, selector: str, ports: list[str]) -> str:
    """A Service of a namespace, named and with ports by its number."""
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: closed{number}, namespace: {name}}}\n"
        f"spec: {{type: LoadBalancer, ipFamilyPolicy: RequireDualStack, {selector}"
        f"externalTrafficPolicy: {policy}, externalIPs: [{', '.join(map(repr, OUTSIDE.values()))}], "
        f"ports: [{', '.join(ports)}]}}\n"
    )


def port_number(name: str, number: int, protocol: str, more: int = 0) -> int:
    """Services of all networks have an address in common, so each has ports of its own."""
    return FIRST[protocol] + NAMES.index(name) + 20 * number + more


def port_of(name: str, number: int, protocol: str, target: str | int, more: int = 0) -> str:
    """A port of a Service, named by its number."""
    port = port_number(name, number, protocol, more)
    return f"{{name: p{port}, protocol: {protocol}, port: {port}, targetPort: {target}}}"


def closed(name: str, number: int, selector: str, policy: str) -> str:
    """A Service of a TCP and a UDP port with the endpoints that have the label."""
    ports = [port_of(name, number, protocol, target) for protocol, target in OPEN.items()]
    return exposed_ports(name, number, policy, f"selector: {{app: {selector}}}, ", ports)


def partly_closed(name: str, number: int, policy: str) -> str:
    """One of two ports of each protocol with an endpoint, and one with a target port that no workload has."""
    ports = [port_of(name, number, protocol, "none") for protocol in OPEN]
    ports += [port_of(name, number, protocol, target, 10) for protocol, target in OPEN.items()]
    return exposed_ports(name, number, policy, "selector: {app: web}, ", ports)


def of_one_family(name: str, number: int, family: int) -> str:
    """A dual-stack Service with an endpoint of one family."""
    ports = [port_of(name, number, protocol, target) for protocol, target in OPEN.items()]
    targets = ", ".join(
        f"{{name: p{port_number(name, number, protocol)}, protocol: {protocol}, port: {target}}}"
        for protocol, target in OPEN.items()
    )
    return exposed_ports(name, number, "Cluster", "", ports) + (
        f"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: one{number}, namespace: {name}, "
        f"labels: {{kubernetes.io/service-name: closed{number}}}}}\naddressType: IPv{family}\n"
        f"ports: [{targets}]\nendpoints: [{{addresses: [{ENDPOINT[family]!r}]}}]\n"
    )


def elsewhere(name: str) -> str:
    """An endpoint on another node."""
    return workload(name, "far", "node2").replace(f"namespace: {name}}}", f"namespace: {name}, labels: {{app: far}}}}")


def described(zone, name: str, which: str) -> dict:
    return zone.plan["services"]["default" if name == "plain" else f"{name}_net"][f"{name}/{which}"]


def stale_ports(zone, name: str, number: int, family: int) -> list[dict]:
    """The ports of a Service that have no endpoints, with the policy Local none on node1."""
    entry = described(zone, name, f"closed{number}")
    is_local = entry["external"]["traffic_policy"] == "Local"

    def is_endpoint(one: dict) -> bool:
        return (":" in one["address"]) == (family == 6) and (one["node"] == "node1" or not is_local)

    found = [port for port in entry["ports"] if not any(map(is_endpoint, port["endpoints"]))]
    assert not found or {port["protocol"] for port in found} == set(PROTOCOLS.values())
    return found


def entrances(zone, name: str, number: int, family: int) -> Iterator[tuple[int, str, int]]:
    """Protocol, address and port of what an external host may send to by way of node1, and has no endpoints there."""
    entry = described(zone, name, f"closed{number}")
    held = [one["address"] for one in entry["external"]["load_balancer"] if one["node"] == "node1"]
    for port in stale_ports(zone, name, number, family):
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


# What Services are, given a namespace and a number.
CASES = {
    "no endpoints": lambda name, number: closed(name, number, "nothing", "Cluster"),
    "ports without endpoints": lambda name, number: partly_closed(name, number, "Cluster"),
    "no IPv4 endpoints": lambda name, number: of_one_family(name, number, 6),
    "no IPv6 endpoints": lambda name, number: of_one_family(name, number, 4),
    "no endpoints, Local": lambda name, number: closed(name, number, "nothing", "Local"),
    "ports without endpoints, Local": lambda name, number: partly_closed(name, number, "Local"),
    "endpoints on another node, Local": lambda name, number: closed(name, number, "far", "Local") + elsewhere(name),
}
ALL = tuple(CASES)
# With the policy Local packets go through the host in local gateway mode.
BY_MODE = {"shared": ALL, "local": ALL[:4]}
# Without those that differ by the node of the client.
CASES_OF_HOST = tuple(case for case in ALL if "Local" not in case or case.startswith("ports"))


def services(cases: tuple[str, ...]) -> str:
    return "".join(CASES[case](name, ALL.index(case)) for name in NAMES for case in cases)


def together_and_alone(cases: tuple[str, ...]) -> list:
    """All of some cases at once, with the first one alone; each of the others alone takes longer and shows little."""
    alone = [pytest.param((case,), marks=() if case == cases[0] else pytest.mark.long, id=case) for case in cases]
    return [pytest.param(cases, id="all"), *alone]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(
    ("mode", "cases"),
    [
        pytest.param(mode, *one.values, marks=one.marks, id=f"{mode}-{one.id}")
        for mode, cases in BY_MODE.items()
        for one in together_and_alone(cases)
    ],
)
def test_an_external_host_is_refused_at_once(shared_host, family, mode, cases):
    machine, zone = shared_host(TENANTS + LARGE_POOL + services(cases), mode)
    asked = 0
    for name, case in itertools.product(NAMES, cases):
        for protocol, target, port in entrances(zone, name, ALL.index(case), family):
            kind, payload = (SYN, b"") if protocol == TCP else (0, b"question")
            ends = EXTERNAL[family], target, protocol, 4000 + asked, port
            expect_refusal(machine, UPLINK, Packet(NEXT_HOP_MAC, MAC, *ends, kind, payload))
            asked += 1
    assert asked or f"IPv{10 - family}" in cases[0]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", ["shared", "local"])
def test_load_balancer_addresses_refuse_what_comes_from_the_source_ranges_only(shared_host, family, mode):
    """Node ports and external addresses refuse all."""
    ranges = ", ".join(f"{one}/{128 if ':' in one else 32}" for one in EXTERNAL.values())
    text = services(ALL[:1])
    text = text.replace("externalTrafficPolicy", f"loadBalancerSourceRanges: [{ranges}], externalTrafficPolicy")
    machine, zone = shared_host(TENANTS + POOL + text, mode)
    silent = []
    for name in NAMES:
        for number, (protocol, target, port) in enumerate(entrances(zone, name, 0, family)):
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
@pytest.mark.parametrize("cases", together_and_alone(CASES_OF_HOST))
def test_the_host_is_refused_at_once(shared_host, family, cases):
    """Its kernel has translated to the cluster IP; here the test does what the kernel does."""
    machine, zone = shared_host(TENANTS + LARGE_POOL + services(cases), userspace_interfaces=[UPLINK])
    for name, number in itertools.product(NAMES, map(ALL.index, cases)):
        addresses = described(zone, name, f"closed{number}")["addresses"]
        cluster_ip = next(one for one in addresses if (":" in one) == (family == 6))
        for port in stale_ports(zone, name, number, family):
            protocol, kind, payload = (TCP, SYN, b"") if port["protocol"] == "TCP" else (UDP, 0, b"question")
            expect_refusal(
                machine, BRIDGE,
                Packet(MAC, NEXT_HOP_MAC, NODE[family], cluster_ip, protocol, 4000, port["port"], kind, payload),
            )  # fmt: skip


def test_a_node_port_works_when_the_first_endpoint_comes_to_the_node(host):
    """northd drops what is for a router's own address when it was taken from one of its load balancers (OVN 25.03)."""
    more = "".join(exposed(name, "Local") for name in NAMES)
    without = (TENANTS + more).replace("spec: {ports: [{name: dns", "spec: {ready: false, ports: [{name: dns")
    machine, zone = host(without)
    for number, (text, has_endpoint) in enumerate(((TENANTS + more, True), (without, False), (TENANTS + more, True))):
        assert zone.apply(text).changed
        for name, family in itertools.product(NAMES, (4, 6)):
            port = described(zone, name, "web")["ports"][0]["node_port"]
            request = Packet(
                NEXT_HOP_MAC, MAC, EXTERNAL[family], NODE[family], UDP, 4000 + number, port, payload=b"question"
            )
            if not has_endpoint:
                expect_refusal(machine, UPLINK, request)
                continue
            target = address(zone, name, "b", family)

            def seen(name=name, target=target) -> list[Packet]:
                return [one for one in received(machine, name, "b") if one.target == target]

            known = len(seen())
            machine.send_until(
                lambda seen=seen, known=known: len(seen()) > known, UPLINK, request.encode(), f"the request at {target}"
            )


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


def test_a_node_port_works_when_another_service_has_none_any_more(host):
    """Nor then, when the other one keeps its load balancer."""
    # With the third Service the network stays on the same nodes, so that northd computes this change alone.
    text = TENANTS + "".join(exposed(name, "Local") + closed(name, 0, "web", "Cluster") for name in NAMES)
    machine, zone = host(text + "".join(beyond(name, "NodePort") for name in NAMES))
    assert zone.apply(text + "".join(beyond(name, "ClusterIP") for name in NAMES)).changed
    for name, family in itertools.product(NAMES, (4, 6)):
        port, target = described(zone, name, "web")["ports"][0]["node_port"], address(zone, name, "b", family)
        request = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], NODE[family], UDP, 4000, port)
        machine.send_until(
            lambda name=name, target=target: target in {one.target for one in received(machine, name, "b")},
            UPLINK, request.encode(), f"the request at {target}",
        )  # fmt: skip
