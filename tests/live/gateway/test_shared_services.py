# SPDX-License-Identifier: Apache-2.0
"""Every network reaches shared services of the default network and nothing else; on a host without VRFs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOPS, UPLINK
from tests.live.gateway.external_host import MANIFESTS, NAMES, NODE, request_of
from tests.live.gateway.packets import SYN, TCP, UDP, Packet
from tests.live.gateway.test_refusals import is_refusal

SERVICE = {4: "10.96.0.10", 6: "fd00:10:96::a"}
OTHER = {4: "10.96.0.11", 6: "fd00:10:96::b"}
SERVER = {4: "192.0.2.53", 6: "2001:db8::53"}
DUMMY_MAC = "0a:58:a9:fe:00:04"
SETTINGS = {
    "shared_services": [
        {
            "name": f"kube-system/dns-v{family}", "address": SERVICE[family], "endpoints": [SERVER[family]],
            "ports": [{"protocol": "UDP", "port": 53, "target": 5353}],
        }
        for family in (4, 6)
    ]
}  # fmt: skip


class Kernel:
    """The host forwards what is neither from it nor for it, back to where it came from."""

    def __init__(self, machine, family: int) -> None:
        self._machine, self._family = machine, family
        self._forwarded: set[tuple[int, Packet]] = set()

    def step(self) -> bool:
        """Forward what came since; always true."""
        for entry in enumerate(self._machine.sent(BRIDGE)):
            packet = entry[1]
            meant = isinstance(packet, Packet) and packet.target_mac == MAC and packet.target != NODE[self._family]
            if meant and entry not in self._forwarded:
                self._forwarded.add(entry)
                self._machine.receive(BRIDGE, replace(packet, source_mac=MAC, target_mac=DUMMY_MAC).encode())
        return True


@pytest.mark.parametrize("family", [4, 6])
def test_every_network_reaches_only_shared_services(shared_host, family):
    machine, zone = shared_host(MANIFESTS, settings=SETTINGS, vrf=False)
    requests = {name: request_of(zone, name, UDP, family) for name in NAMES}
    holders = (*NEXT_HOPS, *SERVER.values())

    def asked():
        found = [packet for packet in machine.sent(UPLINK) if isinstance(packet, Packet)]
        return {packet.payload.decode(): packet for packet in found if packet.target == SERVER[family]}

    kernel = Kernel(machine, family)

    # One after the other: while a neighbour is looked for, ovn-controller keeps four packets and no more.
    for name, packet in requests.items():
        wanted = {**vars(packet), "target": SERVICE[family], "target_port": 53}
        machine.receive(f"if-{name}", Packet(**{**wanted, "target": OTHER[family], "payload": b"other"}).encode())
        machine.receive(f"if-{name}", Packet(**wanted).encode())
        machine.exchange(lambda name=name: kernel.step() and name in asked(), f"what {name} asked", holders)
    assert {(packet.source, packet.target_port) for packet in asked().values()} == {(NODE[family], 5353)}
    for packet in asked().values():
        machine.receive(UPLINK, packet.answer().encode())
    for name, packet in requests.items():

        def back(name=name):
            kernel.step()
            return [entry for entry in machine.sent(f"if-{name}") if isinstance(entry, Packet)]

        machine.exchange(back, f"the answer to {name}", holders)
        [answer] = back()
        assert (answer.source, answer.source_port) == (SERVICE[family], 53)
        assert (answer.target, answer.target_port, answer.payload) == (packet.source, 5000, name.encode())
    assert not [entry for entry in machine.sent(UPLINK) if isinstance(entry, Packet) and entry.payload == b"other"]


@pytest.mark.parametrize("family", [4, 6])
def test_a_shared_service_without_endpoints_refuses(host, family):
    ports = [{"protocol": protocol, "port": 53} for protocol in ("TCP", "UDP")]
    # No workload has the name.
    service = {"name": "kube-system/dns", "address": SERVICE[family], "endpoints": ["plain/none"], "ports": ports}
    machine, zone = host(MANIFESTS, settings={"shared_services": [service]}, vrf=False)
    kernel = Kernel(machine, family)
    for name in NAMES:
        ends = {"target": SERVICE[family], "target_port": 53}
        datagram = replace(request_of(zone, name, UDP, family), **ends)
        for asked in (datagram, replace(datagram, protocol=TCP, kind=SYN, payload=b"")):
            machine.receive(f"if-{name}", asked.encode())

            def refused(name=name, asked=asked):
                kernel.step()
                return any(is_refusal(one, asked) for one in machine.sent(f"if-{name}"))

            machine.exchange(refused, f"the refusal of {asked}")
