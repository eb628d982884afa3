# SPDX-License-Identifier: Apache-2.0
"""Packets of workloads to node ports, external addresses and load balancer addresses, and the answers.

`HostKernel` plays the part of the kernel. What leaves node1 for another host ends at the uplink; what workloads of
other hosts send comes in there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, NEXT_HOPS, UPLINK
from tests.live.gateway.external_host import NODE
from tests.live.gateway.host_kernel import kernel_of
from tests.live.gateway.packets import UDP, Packet
from tests.live.gateway.test_node_ports import OUTSIDE, POOL, exposed
from tests.live.gateway.test_services import NAMES, TENANTS, address, request

OTHER_NODE = {4: "192.0.2.12", 6: "2001:db8::c"}
# Each network's Service is asked by a workload of the next one: of equal subnets, of other topologies.
ASKING = dict(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))
MODES = [(mode, policy) for mode in ("shared", "local") for policy in ("Cluster", "Local")]


@dataclass(frozen=True)
class Target:
    """An address and port of a Service; `here` says whether node1 itself leads to the Service by it."""

    kind: str
    address: str
    port: int
    here: bool


def entrances(zone, name: str, family: int) -> list[Target]:
    entry = zone.plan["services"]["default" if name == "plain" else f"{name}_net"][f"{name}/web"]
    port, held = entry["ports"][0], entry["external"]["load_balancer"]
    balanced = [one for one in held if (":" in one["address"]) == (family == 6)]
    assert len(balanced) == 1
    return [
        Target("own node port", NODE[family], port["node_port"], here=True),
        Target("node port of another host", OTHER_NODE[family], port["node_port"], here=False),
        Target("external address", OUTSIDE[family], port["port"], here=True),
        *(Target("load balancer", one["address"], port["port"], one["node"] == "node1") for one in balanced),
    ]


class Exchange:
    """Requests to entrances, each with a payload of its own, and what became of them."""

    def __init__(self, host, mode: str, policy: str, family: int) -> None:
        self.family = family
        text = TENANTS + POOL + "".join(exposed(name, policy) for name in NAMES)
        self.machine, self.zone = host(text, mode)
        self.kernel = kernel_of(self.machine, self.zone, NAMES)
        targets = [one for name in NAMES for one in entrances(self.zone, name, family)]
        self.holders = (*NEXT_HOPS, OTHER_NODE[family], *(one.address for one in targets if not one.here))

    def until(self, condition, what: str) -> None:
        self.machine.exchange(lambda: self.kernel.step() and condition(), what, self.holders)

    def at(self, interface_name: str, text: bytes) -> list[Packet]:
        sent = self.machine.sent(interface_name)
        return [one for one in sent if isinstance(one, Packet) and one.payload == text]

    def ask(self, client: str, target: Target, text: bytes) -> Packet:
        """Let a workload send a request."""
        # Each request has its own: connections by several addresses have one endpoint.
        own = request(self.zone, client, "a", target.address, source_port=next(self.machine.ports))
        own = replace(own, target_port=target.port, payload=text)
        self.machine.receive(f"if-{client}", own.encode())
        return own

    def served(self, name: str, text: bytes) -> Packet:
        """Wait for a request at the endpoint of `name`, let it answer, and return the request as it arrived."""
        self.until(lambda: self.at(f"if-{name}-b", text), f"{text} at the endpoint")
        [seen] = self.at(f"if-{name}-b", text)
        assert (seen.target, seen.target_port) == (address(self.zone, name, "b", self.family), 5353)
        self.machine.receive(f"if-{name}-b", seen.answer().encode())
        return seen

    def left(self, sent: Packet) -> None:
        """Wait for a request at the uplink with the address of the node, and let it be answered there."""
        self.until(lambda: self.at(UPLINK, sent.payload), f"{sent.payload} at the uplink")
        [seen] = self.at(UPLINK, sent.payload)
        assert (seen.source, seen.target, seen.target_port) == (NODE[self.family], sent.target, sent.target_port)
        self.machine.receive(UPLINK, seen.answer().encode())

    def answered(self, client: str, sent: Packet) -> None:
        """Wait for the answer, which comes from where the request was sent to."""
        self.until(lambda: self.at(f"if-{client}", sent.payload), f"the answer to {sent.payload}")
        [answer] = self.at(f"if-{client}", sent.payload)
        assert (answer.source, answer.source_port) == (sent.target, sent.target_port)
        assert (answer.target, answer.target_port) == (sent.source, sent.source_port)

    def seen_by(self, text: bytes) -> set[str]:
        """All interfaces of workloads and the uplink that a payload was seen at."""
        names = [UPLINK, *(f"if-{name}{end}" for name in NAMES for end in ("", "-b"))]
        return {name for name in names if self.at(name, text)}


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("mode", "policy"), MODES, scope="module")
def test_workloads_of_the_same_network(shared_host, family, mode, policy):
    """Their switch leads to the endpoints, with the client's own address, whatever the policy."""
    exchange = Exchange(shared_host, mode, policy, family)
    for name in NAMES:
        for target in entrances(exchange.zone, name, family):
            text = f"{name} {target.kind}".encode()
            sent = exchange.ask(name, target, text)
            if target.kind == "node port of another host":
                exchange.left(sent)
            else:
                assert exchange.served(name, text).source == sent.source
            exchange.answered(name, sent)
            ends = {f"if-{name}", UPLINK if target.kind == "node port of another host" else f"if-{name}-b"}
            assert exchange.seen_by(text) == ends


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("mode", "policy"), MODES, scope="module")
def test_workloads_of_other_networks(shared_host, family, mode, policy):
    """By way of their host, or of another one; they do not reach what the Service has no port for."""
    exchange = Exchange(shared_host, mode, policy, family)
    clients = {address(exchange.zone, name, "a", family) for name in NAMES}
    for name, client in ASKING.items():
        for target in entrances(exchange.zone, name, family):
            text = f"{client} to {name} {target.kind}".encode()
            closed = exchange.ask(client, replace(target, port=target.port + 500), b"closed " + text)
            sent = exchange.ask(client, target, text)
            if target.here:
                assert exchange.served(name, text).source not in clients
            else:
                exchange.left(sent)
            exchange.answered(client, sent)
            assert exchange.seen_by(text) == {f"if-{client}", f"if-{name}-b" if target.here else UPLINK}
            assert exchange.seen_by(closed.payload) <= {UPLINK}


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("mode", "policy"), MODES, scope="module")
def test_workloads_of_other_hosts(shared_host, family, mode, policy):
    """They come with the address of their host, which the policy Local keeps, also for external addresses."""
    exchange = Exchange(shared_host, mode, policy, family)
    for name in NAMES:
        for number, target in enumerate(entrances(exchange.zone, name, family)):
            if not target.here:
                continue
            text = f"{name} {target.kind}".encode()
            ends = OTHER_NODE[family], target.address, UDP, 4000 + number, target.port
            sent = Packet(NEXT_HOP_MAC, MAC, *ends, payload=text)
            exchange.machine.receive(UPLINK, sent.encode())
            seen = exchange.served(name, text)
            assert (seen.source == OTHER_NODE[family]) == (policy == "Local"), seen
            exchange.until(lambda text=text: exchange.at(UPLINK, text), f"the answer to {text}")
            [answer] = exchange.at(UPLINK, text)
            assert answer == replace(sent.answer(), source_mac=MAC, target_mac=NEXT_HOP_MAC)
    assert not [one for one in exchange.machine.sent(BRIDGE) if isinstance(one, Packet) and one.target_port == 5353]
