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


def exposed(name: str, policy: str) -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: {name}}}\n"
        f"spec: {{type: LoadBalancer, ipFamilyPolicy: RequireDualStack, selector: {{app: web}}, "
        f"externalTrafficPolicy: {policy}, externalIPs: [{', '.join(map(repr, OUTSIDE.values()))}], "
        f"ports: [{{protocol: UDP, port: {PORTS[name] - 29000}, targetPort: 5353, nodePort: {PORTS[name]}}}]}}\n"
    )


def targets(zone, name: str, family: int) -> list[tuple[str, int]]:
    """The addresses and ports of a Service that an external host may send to by way of node1."""
    network = "default" if name == "plain" else f"{name}_net"
    entry = zone.plan["services"][network][f"{name}/web"]
    held = [one["address"] for one in entry["external"]["load_balancer"] if one["node"] == "node1"]
    port = entry["ports"][0]
    found = [(NODE[family], port["node_port"]), (OUTSIDE[family], port["port"])]
    return found + [(one, port["port"]) for one in held if (":" in one) == (family == 6)]


# In local gateway mode packets go through the host with the policy Local: test_entrances.py.
@pytest.mark.parametrize(("mode", "policy"), [("shared", "Cluster"), ("shared", "Local"), ("local", "Cluster")])
@pytest.mark.parametrize("family", [4, 6])
def test_an_external_host_reaches_every_network(host, family, mode, policy):
    machine, zone = host(TENANTS + POOL + "".join(exposed(name, policy) for name in NAMES), mode)
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


@pytest.mark.parametrize("family", [4, 6])
def test_gateway_routers_send_to_an_address_that_their_node_has_through_its_kernel(host, family):
    """The kernel translates it to the cluster IP (tests/live/nftables); here the test does what the kernel does."""
    text = TENANTS + POOL + exposed("flat", "Local")
    machine, zone = host(text, userspace_interfaces=[UPLINK])
    (vip, port) = targets(zone, "flat", family)[-1]
    cluster_ip = next(
        one for one in zone.plan["services"]["flat_net"]["flat/web"]["addresses"] if (":" in one) == (family == 6)
    )
    answered = set()

    def at_host():
        for number, one in enumerate(machine.sent(BRIDGE)):
            if isinstance(one, Question) and one.asked == vip and number not in answered:
                answered.add(number)
                machine.receive(BRIDGE, one.answer(MAC))
        return [one for one in machine.sent(BRIDGE) if isinstance(one, Packet) and one.payload == b"even"]

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
