# SPDX-License-Identifier: Apache-2.0
"""Path MTU discovery of endpoints for what they answer by a node port, an external or a load balancer's address."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from tests.live.gateway import test_egress_services
from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, NODE, conversations, request_of
from tests.live.gateway.packets import ICMP, ICMPV6, IPV4, IPV6, UDP, Packet, checksum, decode
from tests.live.gateway.test_node_ports import OUTSIDE, POOL, exposed, targets
from tests.live.gateway.test_services import NAMES, TENANTS, address, received

PORTS = '[{"protocol": "UDP", "port": 53, "targetPort": 5353}]'
# A router on the way to the client, and its message that a packet is too big.
ROUTER = {4: "203.0.113.1", 6: "2001:db8:77::1"}
PROTOCOL, KIND = {4: ICMP, 6: ICMPV6}, {4: 3, 6: 2}


def too_big(refused: Packet) -> bytes:
    """The frame with which the router refuses a packet of the node."""
    family = 6 if ":" in refused.source else 4
    embedded = refused.encode()[14:]
    found = Packet(NEXT_HOP_MAC, MAC, ROUTER[family], refused.source, PROTOCOL[family], kind=KIND[family])
    # The low half of the MTU, which the encoding of echoes has for the sequence number.
    frame = replace(found, payload=embedded).encode()
    if family == 6:
        return frame
    body = frame[34:35] + b"\x04\0\0" + struct.pack("!HH", 0, 1400) + frame[42:]
    return frame[:34] + body[:2] + struct.pack("!H", checksum(body)) + body[4:]


def errors(machine, name: str, family: int, which: str = "b") -> list[Packet]:
    """The packets that the messages at a workload are about."""
    found = [
        one for one in received(machine, name, which) if (one.protocol, one.kind) == (PROTOCOL[family], KIND[family])
    ]
    kind = struct.pack("!H", IPV4 if family == 4 else IPV6)
    return [decode(bytes(12) + kind + one.payload) for one in found]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("mode", "policy"), [("local", "Cluster"), ("shared", "Local"), ("shared", "Cluster")])
def test_the_endpoint_learns_that_its_answer_was_too_big(shared_host, family, mode, policy):
    machine, zone = shared_host(TENANTS + POOL + "".join(exposed(name, policy) for name in NAMES), mode)
    count = 0
    for name in NAMES:
        for number, (target, port) in enumerate(targets(zone, name, family)):
            text = f"{name} {number}".encode()
            asked = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], target, UDP, 4000 + number, port, payload=text)
            machine.receive(UPLINK, asked.encode())

            def at(received_packets, text=text):
                return [one for one in received_packets() if isinstance(one, Packet) and one.payload == text]

            def inner(name=name):
                return received(machine, name, "b")

            machine.exchange(lambda at=at, inner=inner: at(inner), f"{text} at the endpoint")
            [seen] = at(inner)
            machine.receive(f"if-{name}-b", seen.answer().encode())
            machine.exchange(lambda at=at: at(lambda: machine.sent(UPLINK)), f"the answer {text}")
            [answer] = at(lambda: machine.sent(UPLINK))
            machine.receive(UPLINK, too_big(answer))
            machine.exchange(
                lambda name=name, number=number: len(errors(machine, name, family)) > number, f"the message to {name}"
            )
            about = errors(machine, name, family)[number]
            assert (about.source, about.source_port) == (address(zone, name, "b", family), 5353)
            assert (about.target, about.target_port) == (seen.source, seen.source_port)
            count += 1
    assert count > 2 * len(NAMES)
    # Each is about one connection: other networks with the same external address do not forward it.
    assert sum(len(errors(machine, name, family)) for name in NAMES) == count
    before = len(machine.sent(UPLINK))
    stray = Packet(MAC, NEXT_HOP_MAC, OUTSIDE[family], EXTERNAL[family], UDP, 9, 9, payload=b"stray")
    machine.receive(UPLINK, too_big(stray))
    last = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], OUTSIDE[family], UDP, 4999, 1000, payload=b"last")
    machine.receive(UPLINK, last.encode())
    machine.exchange(
        lambda: [one for one in received(machine, "flat", "b") if one.payload == b"last"], "the last packet"
    )
    left = [one for one in machine.sent(UPLINK)[before:] if isinstance(one, Packet)]
    assert not [one for one in left if one.protocol == PROTOCOL[family]]
    at_host = lambda: [one for one in machine.sent(BRIDGE) if isinstance(one, Packet) and one.source == ROUTER[family]]  # noqa: E731
    assert not at_host()
    # What the host itself has sent is its own, although node ports have its address.
    machine.receive(UPLINK, too_big(replace(stray, source=NODE[family])))
    machine.exchange(at_host, "the message at the host")
    assert sum(len(errors(machine, name, family)) for name in NAMES) == count


@pytest.mark.parametrize("family", [4, 6])
def test_a_workload_learns_that_what_left_was_too_big_beside_node_ports(shared_host, family):
    """With the address of the host, which answers of node ports have, too."""
    machine, zone = shared_host(TENANTS + POOL + "".join(exposed(name, "Cluster") for name in NAMES))
    for name, packet in conversations(machine, zone, family)[0].items():
        assert packet.source == NODE[family]
        machine.receive(UPLINK, too_big(packet))
        machine.exchange(lambda name=name: errors(machine, name, family, "a"), f"the message to {name}")
        [about] = errors(machine, name, family, "a")
        own = request_of(zone, name, UDP, family)
        assert (about.source, about.source_port, about.target) == (own.source, own.source_port, EXTERNAL[family])
    assert not [one for one in machine.sent(BRIDGE) if isinstance(one, Packet) and one.source == ROUTER[family]]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_a_workload_learns_that_what_left_by_its_egress_service_was_too_big(shared_host, family, policy):
    """Connections of workloads and of clients have the same address; the bridge has translated the former."""
    text = test_egress_services.manifests().replace('"ports": [{"port": 80}]', f'"ports": {PORTS}')
    text = text.replace('"type": "LoadBalancer"', f'"type": "LoadBalancer", "externalTrafficPolicy": "{policy}"')
    machine, zone = shared_host(text)
    sent = conversations(machine, zone, family, NAMES[:-1])[0]
    for name in ("flat", "deep"):
        target = test_egress_services.addresses_of(zone, name)[family]
        assert sent[name].source == target
        machine.receive(UPLINK, too_big(sent[name]))
        machine.exchange(lambda name=name: errors(machine, name, family, "a"), f"the message to {name}")
        [about] = errors(machine, name, family, "a")
        own = test_egress_services.request_of(zone, name, UDP, family)
        assert (about.source, about.source_port, about.target) == (own.source, own.source_port, EXTERNAL[family])
        asked = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], target, UDP, 4000, 53, payload=b"asked")
        machine.receive(UPLINK, asked.encode())
        machine.exchange(lambda name=name: of_client(machine, f"if-{name}"), f"the request at {name}")
        [seen] = of_client(machine, f"if-{name}")
        machine.receive(f"if-{name}", seen.answer().encode())
        answers = lambda target=target: [one for one in of_client(machine, UPLINK) if one.source == target]  # noqa: E731
        machine.exchange(answers, f"the answer of {name}")
        machine.receive(UPLINK, too_big(answers()[0]))
        machine.exchange(lambda name=name: len(errors(machine, name, family, "a")) > 1, f"the second one to {name}")
        about = errors(machine, name, family, "a")[1]
        assert (about.source, about.source_port, about.target) == (own.source, 5353, seen.source)


def of_client(machine, interface: str) -> list[Packet]:
    return [one for one in machine.sent(interface) if isinstance(one, Packet) and one.payload == b"asked"]
