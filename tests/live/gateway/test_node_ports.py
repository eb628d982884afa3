# SPDX-License-Identifier: Apache-2.0
"""Packets of an external host to node ports, external addresses and load balancer addresses, and the answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, NODE
from tests.live.gateway.packets import UDP, Packet
from tests.live.gateway.test_services import NAMES, TENANTS, address, received

PORTS = {name: 30000 + number for number, name in enumerate(NAMES)}
VIP = {4: "192.0.2.2{:02}", 6: "2001:db8::a{:02}"}
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


@pytest.mark.parametrize("policy", ["Cluster", "Local"])
@pytest.mark.parametrize("mode", ["shared", "local"])
@pytest.mark.parametrize("family", [4, 6])
def test_an_external_host_reaches_every_network(host, family, mode, policy):
    if mode == "local" and policy == "Local":
        pytest.skip("through the host's kernel")
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
