# SPDX-License-Identifier: Apache-2.0
"""Packets to the cluster IPs of Services: within their network, and from networks with equal subnets."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.live.gateway.conftest import UPLINK, interface_of
from tests.live.gateway.external_host import layer3
from tests.live.gateway.packets import ICMP, ICMPV6, RESET, SYN, TCP, UDP, Packet
from tests.pipeline import layer2, namespace, workload

NAMES = ("flat", "even", "deep", "also", "plain")
HAIRPIN = {4: "169.254.0.5", 6: "fd69::5"}
UNREACHABLE = {4: (ICMP, 3), 6: (ICMPV6, 1)}


def service(where: str, name: str, selector: str, *ports: str, more: str = "") -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {where}}}\n"
        f"spec: {{ipFamilyPolicy: RequireDualStack, selector: {{app: {selector}}}, "
        f"ports: [{', '.join(ports)}]{more}}}\n"
    )


def server(where: str, name: str) -> str:
    return workload(where, name, "node1").replace(
        f"namespace: {where}}}\nspec: {{",
        f"namespace: {where}, labels: {{app: web}}}}\n"
        "spec: {ports: [{name: dns, protocol: UDP, containerPort: 5353}], ",
    )


DNS, HTTP = "{name: dns, protocol: UDP, port: 53, targetPort: dns}", "{name: http, port: 80, targetPort: 8080}"
TENANTS = "".join(
    [
        *(namespace(name) + layer2(name, "net", "10.50.0.0/24", "fd50::/64") for name in ("flat", "even")),
        *(namespace(name) + layer3(name) for name in ("deep", "also")),
        namespace("plain", primary=False),
        *(workload(name, "a", "node1") + server(name, "b") for name in NAMES),
    ]
)
SERVICES = "".join(
    service(name, "web", "web", DNS, HTTP) + service(name, "none", "nothing", DNS, HTTP) for name in NAMES
)


def interface(zone, name: str, which: str) -> dict:
    return zone.plan["workloads"][f"{name}/{which}"]["interfaces"][-1]


def address(zone, name: str, which: str, family: int) -> str:
    return next(one for one in interface(zone, name, which)["addresses"] if (":" in one) == (family == 6)).partition(
        "/"
    )[0]


def cluster_ip(zone, name: str, which: str, family: int) -> str:
    network = interface(zone, name, "a")["network"]
    found = zone.plan["services"][network][f"{name}/{which}"]["addresses"]
    return next(one for one in found if (":" in one) == (family == 6))


def gateway_mac(zone, name: str) -> str:
    """The MAC address of the router next to the workloads."""
    flat = f"{name}_net_ovn_layer2_switch"
    ends = ("rtos-node1",) if name == "plain" else (f"rtos-{name}_net_node1", f"trtos-{flat}", f"rtos-{flat}")
    return next(mac for port, mac in zone.router_macs.items() if port in ends)


def request(zone, name: str, which: str, target: str, protocol: int = UDP, source_port: int = 5000) -> Packet:
    """A workload's packet to a cluster IP, by way of its gateway."""
    family = 6 if ":" in target else 4
    own = interface(zone, name, which)
    found = Packet(
        own["mac"], gateway_mac(zone, name), address(zone, name, which, family), target, protocol, source_port, 53
    )
    if protocol == TCP:
        return replace(found, target_port=80, kind=SYN, payload=b"")
    return replace(found, payload=f"{name} {which}".encode())


def received(machine, name: str, which: str) -> list[Packet]:
    return [packet for packet in machine.sent(interface_of(name, which)) if isinstance(packet, Packet)]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", ["local", "shared"])
def test_a_cluster_ip_is_reached_from_its_network_only(shared_host, family, mode):
    machine, zone = shared_host(TENANTS + SERVICES, mode)
    for name in NAMES:
        own = request(zone, name, "a", cluster_ip(zone, name, "web", family))
        for other in NAMES:
            if other != name:
                foreign = request(zone, name, "a", cluster_ip(zone, other, "web", family))
                machine.receive(interface_of(name), replace(foreign, payload=b"foreign").encode())
        machine.receive(interface_of(name), own.encode())
        machine.exchange(lambda name=name: received(machine, name, "b"), f"the request of {name}")
        [seen] = received(machine, name, "b")
        assert (seen.source, seen.source_port, seen.payload) == (own.source, 5000, own.payload)
        assert (seen.target, seen.target_port) == (address(zone, name, "b", family), 5353)
        machine.receive(interface_of(name, "b"), seen.answer().encode())
        machine.exchange(lambda name=name: received(machine, name, "a"), f"the answer to {name}")
        [answer] = received(machine, name, "a")
        assert (answer.source, answer.source_port, answer.target_port) == (own.target, 53, 5000)
    everywhere = [packet for name in NAMES for which in "ab" for packet in received(machine, name, which)]
    assert not [packet for packet in everywhere if packet.payload == b"foreign"]
    assert len(everywhere) == 2 * len(NAMES)


@pytest.mark.parametrize("family", [4, 6])
def test_a_service_without_endpoints_rejects_at_once(shared_host, family):
    machine, zone = shared_host(TENANTS + SERVICES)
    for name in NAMES:
        target = cluster_ip(zone, name, "none", family)
        machine.receive(interface_of(name), request(zone, name, "a", target).encode())
        machine.receive(interface_of(name), request(zone, name, "a", target, TCP).encode())
        wanted = {UNREACHABLE[family], (TCP, RESET)}

        def answered(name=name, wanted=wanted):
            return {(one.protocol, one.kind & ~0x10) for one in received(machine, name, "a")} == wanted

        machine.exchange(answered, f"the errors for {name}")
    assert not [
        packet for packet in machine.sent(UPLINK) if isinstance(packet, Packet) and packet.target_port in (53, 80)
    ]


@pytest.mark.parametrize("family", [4, 6])
def test_a_workload_reaches_itself_through_its_service(shared_host, family):
    machine, zone = shared_host(TENANTS + SERVICES)
    for name in NAMES:
        own = request(zone, name, "b", cluster_ip(zone, name, "web", family))
        machine.receive(interface_of(name, "b"), own.encode())
        machine.exchange(lambda name=name: received(machine, name, "b"), f"the request of {name}")
        [seen] = received(machine, name, "b")
        assert (seen.source, seen.target, seen.target_port) == (HAIRPIN[family], own.source, 5353)
        machine.receive(interface_of(name, "b"), seen.answer().encode())
        machine.exchange(lambda name=name: len(received(machine, name, "b")) == 2, f"the answer to {name}")
        answer = received(machine, name, "b")[1]
        assert (answer.source, answer.source_port, answer.target) == (own.target, 53, own.source)


@pytest.mark.parametrize("family", [4, 6])
def test_a_client_stays_with_its_endpoint(shared_host, family):
    """With affinity all connections of one client have one endpoint; without, some of 16 have the other.

    The first packet makes OVN remember the endpoint and goes no further (ovn-northd(8), "Load balancing affinity
    learn"). Sent again it arrives with the kernel's datapath, in the userspace one only from another port.
    """
    others = "".join(server(name, "c") for name in NAMES)
    sticky = "".join(service(name, "sticky", "web", DNS, more=", sessionAffinity: ClientIP") for name in NAMES)
    machine, zone = shared_host(TENANTS + SERVICES + others + sticky)
    for first, which, ends in ((20000, "sticky", 1), (40000, "web", 2)):
        for name in NAMES:
            target, ports = cluster_ip(zone, name, which, family), itertools.count(first)

            def arrived(name=name, first=first):
                found = {end: {one.source_port for one in received(machine, name, end)} for end in "bc"}
                return [sum(first <= port < first + 20000 for port in those) for those in found.values()]

            def enough(name=name, target=target, ports=ports, arrived=arrived):
                packet = request(zone, name, "a", target, source_port=next(ports))
                machine.receive(interface_of(name), packet.encode())
                machine.follow_learned_flows()
                return sum(arrived()) >= 16

            machine.exchange(enough, f"requests of {name}")
            assert sum(count > 0 for count in arrived()) == ends, (which, name)


@pytest.mark.parametrize("family", [4, 6])
def test_endpoints_follow_workloads(host, family):
    machine, zone = host(TENANTS + SERVICES)
    unready = (TENANTS + SERVICES).replace("spec: {ports: [{name: dns", "spec: {ready: false, ports: [{name: dns")
    assert zone.apply(unready).changed
    assert not zone.apply(unready).changed
    for name in NAMES:
        sent = request(zone, name, "a", cluster_ip(zone, name, "web", family))
        machine.send_until(
            lambda name=name: received(machine, name, "a"), interface_of(name), sent.encode(), f"the error for {name}"
        )
        assert (received(machine, name, "a")[0].protocol, received(machine, name, "a")[0].kind) == UNREACHABLE[family]
    assert zone.apply(TENANTS).changed
    assert not zone.northbound.rows("Load_Balancer_Group", "name")
    assert not zone.northbound.rows("Load_Balancer", "name")
    assert not zone.apply(TENANTS).changed
    assert zone.apply(TENANTS + SERVICES).changed
    assert len(zone.northbound.rows("Load_Balancer_Group", "name")) == len(NAMES)
