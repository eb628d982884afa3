# SPDX-License-Identifier: Apache-2.0
"""The provider bridge answers gateway routers that ask for a neighbour which it has heard of a moment ago."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway import neighbour_flows
from tests.live.conftest import wait_for
from tests.live.gateway.conftest import MAC, NEXT_HOP_MAC, NEXT_HOPS, UPLINK
from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, NAMES, NODE, request_of
from tests.live.gateway.packets import ICMP, ICMPV6, UDP, Answer, Packet, Question
from tests.pipeline import layer2, namespace, workload

VLAN = 30
OTHER_MAC = "0a:00:00:00:00:fd"


class Neighbours:
    """What a test asks of a host about one next hop."""

    def __init__(self, machine, zone, family: int) -> None:
        self.machine, self.zone, self.family = machine, zone, family
        self.next_hop = NEXT_HOPS[0 if family == 4 else 1]
        self.protocol = ICMP if family == 4 else ICMPV6

    def send(self, name: str) -> None:
        """Let a workload send to an external host."""
        self.machine.receive(f"if-{name}", request_of(self.zone, name, self.protocol, self.family).encode())

    def left(self) -> dict[bytes, str]:
        """Return the MAC addresses to which packets of workloads left last, by workload."""
        return {
            packet.payload: packet.target_mac
            for packet in self.machine.sent(UPLINK)
            if isinstance(packet, Packet) and packet.target == EXTERNAL[self.family]
        }

    def questions(self) -> int:
        """Return how often the provider network was asked for the next hop."""
        return sum(
            isinstance(packet, Question) and packet.asked == self.next_hop for packet in self.machine.sent(UPLINK)
        )

    def forget(self) -> None:
        """Let all gateway routers forget the next hop."""
        where = [["ip", "==", self.next_hop]]
        self.zone.southbound.transact({"op": "delete", "table": "MAC_Binding", "where": where})


@pytest.mark.parametrize("vlan", [None, VLAN])
@pytest.mark.parametrize("family", [4, 6])
def test_routers_that_have_forgotten_a_neighbour_are_answered_by_the_bridge(host, family, vlan, monkeypatch):
    # What the test does happens before the bridge forgets, on a slow machine as well.
    monkeypatch.setattr(neighbour_flows, "KNOWN_SECONDS", 3600)
    machine, zone = host(MANIFESTS, userspace_interfaces=[UPLINK], vlan=vlan)
    found = Neighbours(machine, zone, family)
    machine.repeat_until(lambda: b"flat" in found.left(), lambda: found.send("flat"), "what the first workload sent")
    found.forget()
    asked = found.questions()
    others = [name for name in NAMES if name not in ("flat", "plain")]

    def all_left() -> bool:
        for name in others:
            if name.encode() not in found.left():
                found.send(name)
        return {name.encode() for name in others} <= found.left().keys()

    wait_for(all_left, "what the other workloads sent")
    assert found.questions() == asked
    assert set(found.left().values()) == {NEXT_HOP_MAC}

    # A neighbour that moves is answered for with its new MAC.
    found.forget()
    machine.receive(UPLINK, Answer(found.next_hop, OTHER_MAC).broadcast())
    # A router that is answered before that keeps the former MAC, and asks no more.
    machine.follow_learned_flows()

    def has_moved() -> bool:
        found.send("even")
        return found.left()[b"even"] == OTHER_MAC

    wait_for(has_moved, "packets to the next hop's new MAC")
    assert found.questions() == asked


@pytest.mark.parametrize("family", [4, 6])
def test_networks_beyond_what_the_userspace_datapath_serves_at_once_reach_the_provider_network(
    host, family, monkeypatch
):
    """It looks a packet up anew at most six times, so a neighbour's answer reaches seven groups of routers."""
    monkeypatch.setattr(neighbour_flows, "GROUP_SIZE", 1)
    monkeypatch.setattr(neighbour_flows, "KNOWN_SECONDS", 3600)
    names = [f"t{number}" for number in range(10)]
    networks = "".join(
        namespace(name) + layer2(name, "net", "10.50.0.0/24", "fd50::/64") + workload(name, "a", "node1")
        for name in names
    )
    machine, zone = host(networks, userspace_interfaces=[UPLINK])
    found = Neighbours(machine, zone, family)
    frames = {}
    for number, name in enumerate(names):
        packet = request_of(zone, name, UDP, family)
        frames[name] = Packet(**{**vars(packet), "source_port": 5000 + number}).encode()

    def send() -> None:
        for name, frame in frames.items():
            if name.encode() not in found.left():
                machine.receive(f"if-{name}", frame)

    machine.repeat_until(lambda: len(found.left()) == len(names), send, "what all workloads sent")


def test_all_routers_learn_several_neighbours_that_answer_at_once(host):
    """ovn-controller takes a limited number of answers a second, and gets each once for each router."""
    machine, zone = host(MANIFESTS, userspace_interfaces=[UPLINK])
    addresses = [f"192.0.2.{number}" for number in range(100, 112)]
    asked = [Question(MAC, NODE[4], address) for address in addresses]
    machine.wait_for_limits()
    machine.receive_all(UPLINK, [one.answer(OTHER_MAC) for one in asked])

    def learned() -> set[tuple[str, str]]:
        rows = zone.southbound.rows("MAC_Binding", "logical_port", "ip")
        return {(row["logical_port"], row["ip"]) for row in rows if row["ip"] in addresses}

    routers = len(NAMES)
    wait_for(lambda: len(learned()) == routers * len(addresses), f"{len(addresses)} neighbours of {routers} routers")
