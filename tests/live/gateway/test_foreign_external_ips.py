# SPDX-License-Identifier: Apache-2.0
"""External addresses of Services that are in a subnet of another network, whose packets go on as without them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.live.gateway.conftest import MAC, NEXT_HOP_MAC, UPLINK, interface_of
from tests.live.gateway.external_host import EXTERNAL
from tests.live.gateway.packets import UDP, Packet
from tests.live.gateway.test_services import address, interface, received, request, server, service
from tests.pipeline import layer2, namespace, workload

# The first addresses of workloads of "own", which has the subnets that "other" has external addresses of.
TAKEN = {4: "10.50.0.4", 6: "fd50::4"}
TENANTS = (
    namespace("own") + layer2("own", "net", "10.50.0.0/24", "fd50::/64")
    + namespace("other") + layer2("other", "net", "10.60.0.0/24", "fd60::/64")
    + "".join(workload(name, "a", "node1") + server(name, "b") for name in ("own", "other"))
)  # fmt: skip
MORE = f", type: LoadBalancer, externalIPs: [{', '.join(map(repr, TAKEN.values()))}]"
PORT = "{name: dns, protocol: UDP, port: 53, targetPort: 5353}"


@pytest.mark.parametrize("mode", ["shared", "local"])
@pytest.mark.parametrize("family", [4, 6])
def test_workloads_of_that_network_reach_each_other_and_others_reach_the_service(shared_host, family, mode):
    machine, zone = shared_host(TENANTS + service("other", "web", "web", PORT, more=MORE), mode)
    assert TAKEN[family] == address(zone, "own", "b", family)
    ends = [interface(zone, "own", which)["mac"] for which in "ab"]
    direct = Packet(*ends, address(zone, "own", "a", family), TAKEN[family], UDP, 5000, 53, payload=b"direct")
    machine.receive(interface_of("own"), direct.encode())
    machine.exchange(lambda: received(machine, "own", "b"), "the packet to the workload")
    [seen] = received(machine, "own", "b")
    assert (seen.target, seen.target_port) == (TAKEN[family], 53)
    machine.receive(interface_of("own", "b"), seen.answer().encode())
    machine.exchange(lambda: received(machine, "own", "a"), "the answer of the workload")
    [answer] = received(machine, "own", "a")
    assert (answer.source, answer.source_port) == (TAKEN[family], 53)
    inside = replace(request(zone, "other", "a", TAKEN[family]), payload=b"inside")
    machine.receive(interface_of("other"), inside.encode())
    outside = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], TAKEN[family], UDP, 4000, 53, payload=b"outside")
    machine.receive(UPLINK, outside.encode())
    for text in (b"inside", b"outside"):
        arrived = lambda text=text: [one for one in received(machine, "other", "b") if one.payload == text]  # noqa: E731
        machine.exchange(arrived, f"{text} at the endpoint")
        assert arrived()[0].target_port == 5353
    assert len(received(machine, "own", "b")) == 1
