# SPDX-License-Identifier: Apache-2.0
"""Packets of an external host to node ports, external addresses and load balancer addresses, and the answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import masquerade_pair
from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, NODE, request_of
from tests.live.gateway.packets import UDP, Packet, Question
from tests.live.gateway.test_services import NAMES, TENANTS, address, received

PORTS = {name: 30000 + number for number, name in enumerate(NAMES)}
POOL = """---
apiVersion: heddle.dev/v1
kind: LoadBalancerPool
metadata: {name: pool}
spec: {subnets: [192.0.2.200/29, "2001:db8::a00/125"]}
"""
OUTSIDE = {4: "198.51.100.80", 6: "2001:db8:99::80"}


def exposed(name: str, policy: str, service: str = "web", more: int = 0) -> str:
    """A Service of a namespace's endpoints; `more` is added to its ports where another one has the same addresses."""
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {service}, namespace: {name}}}\n"
        f"spec: {{type: LoadBalancer, ipFamilyPolicy: RequireDualStack, selector: {{app: web}}, "
        f"externalTrafficPolicy: {policy}, externalIPs: [{', '.join(map(repr, OUTSIDE.values()))}], "
        f"ports: [{{protocol: UDP, port: {PORTS[name] - 29000 + more}, targetPort: 5353, "
        f"nodePort: {PORTS[name] + more}}}]}}\n"
    )


def targets(zone, name: str, family: int, service: str = "web") -> list[tuple[str, int]]:
    """The addresses and ports of a Service that an external host may send to by way of node1."""
    network = "default" if name == "plain" else f"{name}_net"
    entry = zone.plan["services"][network][f"{name}/{service}"]
    held = [one["address"] for one in entry["external"]["load_balancer"] if one["node"] == "node1"]
    port = entry["ports"][0]
    found = [(NODE[family], port["node_port"]), (OUTSIDE[family], port["port"])]
    return found + [(one, port["port"]) for one in held if (":" in one) == (family == 6)]


def firewall(name: str) -> str:
    """A firewall that denies a namespace all connections to addresses beyond its network."""
    rules = ", ".join(f"{{type: Deny, to: {{cidrSelector: {subnet!r}}}}}" for subnet in ("0.0.0.0/0", "::/0"))
    return (
        "---\napiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\n"
        f"metadata: {{name: default, namespace: {name}}}\nspec: {{egress: [{rules}]}}\n"
    )


# In local gateway mode packets go through the host with the policy Local: test_entrances.py.
@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(
    ("mode", "policy", "has_firewall"),
    [
        ("shared", "Cluster", False),
        ("shared", "Local", False),
        # Firewalls are about connections of workloads, not about their answers.
        ("shared", "Local", True),
        ("local", "Cluster", False),
    ],
)
def test_an_external_host_reaches_every_network(shared_host, family, mode, policy, has_firewall):
    more = "".join(exposed(name, policy) + (firewall(name) if has_firewall else "") for name in NAMES)
    machine, zone = shared_host(TENANTS + POOL + more, mode)
    assert not machine.apply(zone.plan).changed
    count = 0
    for name in NAMES:
        for number, (target, port) in enumerate(targets(zone, name, family)):
            count += 1
            text = f"{name} {number}".encode()
            request = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], target, UDP, 4000 + number, port, payload=text)
            machine.receive(UPLINK, request.encode())

            def arrived(name=name, text=text):
                return [one for one in received(machine, name, "b") if one.payload == text]

            machine.exchange(arrived, f"{text} at the endpoint")
            [seen] = arrived()
            assert (seen.target, seen.target_port) == (address(zone, name, "b", family), 5353)
            assert (seen.source == EXTERNAL[family]) == (policy == "Local"), seen
            machine.receive(f"if-{name}-b", seen.answer().encode())

            def back(text=text):
                sent = [one for one in machine.sent(UPLINK) if isinstance(one, Packet)]
                return [one for one in sent if one.payload == text]

            machine.exchange(back, f"the answer {text}")
            [answer] = back()
            wanted = replace(request.answer(), source_mac=MAC, target_mac=NEXT_HOP_MAC)
            assert answer == wanted
    assert count > 2 * len(NAMES)
    assert not [one for one in machine.sent(BRIDGE) if isinstance(one, Packet) and one.payload.startswith(b"flat")]


def at_bridge(machine, vip: str) -> list[Packet]:
    """The packets that reach the host, which answers questions for an address that it has; once more does no harm."""
    for one in machine.sent(BRIDGE):
        if isinstance(one, Question) and one.asked == vip:
            machine.receive(BRIDGE, one.answer(MAC))
    return [one for one in machine.sent(BRIDGE) if isinstance(one, Packet)]


@pytest.mark.parametrize("family", [4, 6])
def test_gateway_routers_send_to_an_address_that_their_node_has_through_its_kernel(shared_host, family):
    """The kernel translates it to the cluster IP (tests/live/nftables); here the test does what the kernel does."""
    text = TENANTS + POOL + exposed("flat", "Local")
    machine, zone = shared_host(text, userspace_interfaces=[UPLINK])
    (vip, port) = targets(zone, "flat", family)[-1]
    cluster_ip = next(
        one for one in zone.plan["services"]["flat_net"]["flat/web"]["addresses"] if (":" in one) == (family == 6)
    )

    def at_host():
        return [one for one in at_bridge(machine, vip) if one.payload == b"even"]

    request = replace(request_of(zone, "even", UDP, family), target=vip, target_port=port)
    machine.receive("if-even", request.encode())
    machine.exchange(at_host, "the packet at the host")
    seen = at_host()[0]
    subnet = zone.plan["settings"]["masquerade_subnets"][family == 6]
    assert seen.source == masquerade_pair(subnet, zone.plan["networks"]["even_net"]["id"])[0]
    translated = replace(seen, source_mac=MAC, target_mac=NEXT_HOP_MAC, target=cluster_ip)
    machine.receive(BRIDGE, translated.encode())

    def arrived():
        return [one for one in received(machine, "flat", "b") if one.payload == b"even"]

    machine.exchange(arrived, "the packet at the endpoint")
    # Another port of the address is neither the host's nor the provider network's.
    other = replace(request, target_port=22, payload=b"other")
    machine.receive("if-even", other.encode())
    machine.receive("if-even", replace(request, payload=b"last", source_port=5001).encode())
    last = lambda: [one for one in machine.sent(BRIDGE) if isinstance(one, Packet) and one.payload == b"last"]  # noqa: E731
    machine.exchange(last, "the last packet")
    everywhere = [*machine.sent(BRIDGE), *machine.sent(UPLINK)]
    assert not [one for one in everywhere if isinstance(one, Packet) and one.payload == b"other"]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("which", ["load balancer", "external"])
def test_an_egress_ip_of_the_default_network_reaches_an_address_of_a_service_of_its_node(shared_host, family, which):
    """The gateway router has translated the source to the EgressIP then."""
    own = {4: "192.0.2.102", 6: "2001:db8::102"}[family]
    egress_ip = (
        "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: plain}\n"
        f"spec: {{egressIPs: [{own!r}], namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: plain}}}}}}\n"
    )
    labels = {"k8s.ovn.org/egress-assignable": ""}
    machine, zone = shared_host(TENANTS + POOL + egress_ip + exposed("flat", "Cluster"), labels=labels)
    vip, port = targets(zone, "flat", family)[-1 if which == "load balancer" else 1]
    request = replace(request_of(zone, "plain", UDP, family), target=vip, target_port=port)
    machine.receive("if-plain", request.encode())

    def at_host():
        return [one for one in at_bridge(machine, vip) if one.target == vip]

    machine.exchange(at_host, "the packet at the host")
    [seen] = at_host()
    # As what the default network sends to any other address of its host.
    assert seen.source == {4: "169.254.0.1", 6: "fd69::1"}[family]
    machine.receive(BRIDGE, seen.answer().encode())

    def back():
        sent = [one for one in machine.sent("if-plain") if isinstance(one, Packet)]
        return [one for one in sent if one.source == vip]

    machine.exchange(back, "the answer")
    assert back()[0].target_port == request.source_port
