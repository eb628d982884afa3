# SPDX-License-Identifier: Apache-2.0
"""Node ports at all addresses of a host: of another NIC, of tunnels, of the management port.

Clients are the host itself, workloads of this and of other networks, and external hosts on the network of that NIC.
`HostKernel` plays the part of node1's kernel; `tests/live/nftables/test_node_port_nics.py` has a real one.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import family as family_of
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.entrances import node_port_addresses
from tests.live.gateway.conftest import MAC, NEXT_HOP_MAC, NEXT_HOPS, UPLINK
from tests.live.gateway.external_host import NODE
from tests.live.gateway.host_kernel import kernel_of
from tests.live.gateway.packets import TCP, UDP, Packet
from tests.live.gateway.test_node_ports import exposed
from tests.live.gateway.test_services import NAMES, TENANTS, address, request

NIC = "eth3"
# The host has further addresses on the provider bridge.
PROVIDER = ["192.0.2.11/24", "2001:db8::b/64", "192.0.2.31/24", "2001:db8::31/64"]
CLIENT = {4: "203.0.113.50", 6: "2001:db8:3::50"}
# On no network of the host.
BEYOND = {4: "198.51.100.77", 6: "2001:db8:77::1"}
ASKING = dict(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))
MODES = [(mode, policy) for mode in ("shared", "local", "userspace") for policy in ("Cluster", "Local")]


def node_port(name: str, policy: str) -> str:
    return exposed(name, policy).replace("type: LoadBalancer", "type: NodePort")


class Exchange:
    """Requests to node ports at the host's other addresses, and what became of them."""

    def __init__(self, host, mode: str, policy: str, family: int, **more) -> None:
        self.family = family
        text = TENANTS + "".join(node_port(name, policy) for name in NAMES)
        # Marks of the kernel do not reach a userspace datapath, which has shared gateway mode here. There workloads of
        # other networks do not reach their own node by the provider network's addresses.
        has_marks = mode != "userspace"
        facts = {"addresses": PROVIDER} if has_marks else {"userspace_interfaces": [UPLINK]}
        self.machine, self.zone = host(text, mode if has_marks else "shared", nics=True, **facts, **more)
        self.kernel = kernel_of(self.machine, self.zone, NAMES, has_marks=has_marks)
        known = node_port_addresses(self.zone.plan, "node1")
        self.targets = [one for one in known if family_of(one) == family and one != NODE[family]]

    def until(self, condition, what: str) -> None:
        self.machine.exchange(lambda: self.kernel.step() and condition(), what, NEXT_HOPS)

    def port(self, name: str) -> int:
        network = "default" if name == "plain" else f"{name}_net"
        return self.zone.plan["services"][network][f"{name}/web"]["ports"][0]["node_port"]

    def at(self, name: str, text: bytes) -> list[Packet]:
        return [one for one in self.machine.sent(name) if isinstance(one, Packet) and one.payload == text]

    def machine_packets(self, name: str) -> list[Packet]:
        return [one for one in self.machine.sent(name) if isinstance(one, Packet)]

    def served(self, name: str, text: bytes) -> Packet:
        """Wait for a request at the endpoint of `name`, let it answer, and return the request as it arrived."""
        self.until(lambda: self.at(f"if-{name}-b", text), f"{text} at the endpoint")
        [seen] = self.at(f"if-{name}-b", text)
        assert (seen.target, seen.target_port) == (address(self.zone, name, "b", self.family), 5353)
        self.machine.receive(f"if-{name}-b", seen.answer().encode())
        return seen

    def asked(self, name: str, source: str, target: str, text: bytes) -> Packet:
        ends = source, target, UDP, next(self.machine.ports), self.port(name)
        return Packet(NEXT_HOP_MAC, MAC, *ends, payload=text)

    def answered(self, found, sent: Packet) -> None:
        """Wait for one answer, which comes from where the request was sent to."""
        self.until(lambda: [one for one in found() if one.payload == sent.payload], f"the answer to {sent.payload}")
        [answer] = [one for one in found() if one.payload == sent.payload]
        assert (answer.source, answer.source_port) == (sent.target, sent.target_port)
        assert (answer.target, answer.target_port) == (sent.source, sent.source_port)


@pytest.fixture
def exchange(shared_host, family, mode, policy):
    found = Exchange(shared_host, mode, policy, family)
    # The NIC's, and the management port's; tunnel endpoints have IPv4 here.
    assert len(found.targets) >= 2
    return found


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("mode", "policy"), MODES, scope="module")
class TestNodePorts:
    """By all addresses of node1 but those on the provider network."""

    def test_the_host_itself(self, exchange) -> None:
        for name in NAMES:
            for target in exchange.targets:
                text = f"{name} {target}".encode()
                sent = exchange.asked(name, target, target, text)
                exchange.kernel.send(target, sent.target_port, text, sent.source_port, target)
                assert exchange.served(name, text).source not in exchange.targets
                exchange.answered(lambda: exchange.kernel.delivered, sent)

    def test_workloads(self, exchange) -> None:
        for name, other in ASKING.items():
            for client, target in itertools.product((name, other), exchange.targets):
                text = f"{client} to {name} {target}".encode()
                own = request(exchange.zone, client, "a", target, source_port=next(exchange.machine.ports))
                sent = replace(own, target_port=exchange.port(name), payload=text)
                exchange.machine.receive(f"if-{client}", sent.encode())
                exchange.served(name, text)
                exchange.answered(lambda client=client: exchange.machine_packets(f"if-{client}"), sent)
                assert not exchange.at(UPLINK, text)

    def test_external_hosts_on_the_network_of_the_nic(self, exchange, policy) -> None:
        by_nic(exchange, policy)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("mode", "policy"), MODES[:4])
def test_external_hosts_without_a_default_gateway_on_the_provider_network(shared_host, family, mode, policy):
    """The way of the answers is for nothing else: other packets do not leave by the provider network."""
    exchange = Exchange(shared_host, mode, policy, family, next_hops=[])
    for name, protocol in itertools.product(NAMES, (UDP, TCP)):
        sent = request(exchange.zone, name, "a", BEYOND[family], protocol, source_port=next(exchange.machine.ports))
        exchange.machine.receive(f"if-{name}", sent.encode())
    by_nic(exchange, policy)
    # In local mode the kernel decides, of whose routes there is none here.
    if mode == "shared":
        assert not [one for one in exchange.machine_packets(UPLINK) if one.target == BEYOND[family]]


def by_nic(exchange: Exchange, policy: str) -> None:
    """Ask all node ports by the NIC, at all addresses of the host."""
    client = CLIENT[exchange.family]
    for name in NAMES:
        for target in (*exchange.targets, NODE[exchange.family]):
            text = f"{name} {target}".encode()
            sent = exchange.asked(name, client, target, text)
            exchange.kernel.receive(NIC, sent)
            assert (exchange.served(name, text).source == client) == (policy == "Local")
            exchange.answered(lambda: exchange.kernel.sent[NIC], sent)
            assert not exchange.at(UPLINK, text)
