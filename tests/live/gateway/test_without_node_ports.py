# SPDX-License-Identifier: Apache-2.0
"""Services without node ports in local gateway mode: with the policy Local endpoints see external clients.

`HostKernel` plays the part of node1's kernel.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.live.gateway.conftest import MAC, NEXT_HOP_MAC, NEXT_HOPS, UPLINK
from tests.live.gateway.external_host import EXTERNAL
from tests.live.gateway.host_kernel import kernel_of
from tests.live.gateway.packets import UDP, Packet
from tests.live.gateway.test_node_ports import OUTSIDE, POOL, exposed
from tests.live.gateway.test_services import NAMES, TENANTS, address, interface, received


def without_node_ports(name: str, number: int) -> str:
    """A Service of a load balancer's and of external addresses; its first port is that of all others."""
    text = exposed(name, "Local").replace(
        "type: LoadBalancer", "type: LoadBalancer, allocateLoadBalancerNodePorts: false"
    )
    start = text.index("ports: [")
    return text[:start] + (
        f"ports: [{{name: a, protocol: UDP, port: {1000 + number}, targetPort: 5353}}, "
        f"{{name: b, protocol: UDP, port: {2000 + number}, targetPort: 5454}}]}}\n"
    )


@pytest.mark.parametrize("family", [4, 6])
def test_an_external_host_keeps_its_address(shared_host, family):
    text = TENANTS + POOL + "".join(without_node_ports(name, number) for number, name in enumerate(NAMES))
    machine, zone = shared_host(text, "local")
    kernel = kernel_of(machine, zone, NAMES)

    def until(condition, what):
        machine.exchange(lambda: kernel.step() and condition(), what, NEXT_HOPS)

    for name in NAMES:
        entry = zone.plan["services"][interface(zone, name, "a")["network"]][f"{name}/web"]
        held = [one["address"] for one in entry["external"]["load_balancer"] if one["node"] == "node1"]
        targets = [OUTSIDE[family], *(one for one in held if (":" in one) == (family == 6))]
        assert not any("node_port" in port for port in entry["ports"])
        for target in targets:
            for port, expected in zip(entry["ports"], (5353, 5454), strict=True):
                payload = f"{name} {target} {expected}".encode()
                asked = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], target, UDP, 4000, port["port"], payload=payload)
                machine.receive(UPLINK, asked.encode())

                def arrived(name=name, payload=payload):
                    return [one for one in received(machine, name, "b") if one.payload == payload]

                until(arrived, f"{payload} at the endpoint")
                [seen] = arrived()
                assert (seen.source, seen.target, seen.target_port) == (
                    EXTERNAL[family], address(zone, name, "b", family), expected,
                )  # fmt: skip
                machine.receive(f"if-{name}-b", seen.answer().encode())

                def back(payload=payload):
                    sent = machine.sent(UPLINK)
                    return [one for one in sent if isinstance(one, Packet) and one.payload == payload]

                until(back, f"the answer {payload}")
                assert back() == [replace(asked.answer(), source_mac=MAC, target_mac=NEXT_HOP_MAC)]
