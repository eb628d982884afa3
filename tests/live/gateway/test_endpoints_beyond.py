# SPDX-License-Identifier: Apache-2.0
"""Packets to Services with endpoints beyond their network, which EndpointSlices list, and the answers.

Endpoints are a process on an external host, one on another host of the cluster, and two of node1 itself, one of them at
the address of another NIC. `HostKernel` plays the part of node1's kernel.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.live.gateway.conftest import MAC, NEXT_HOP_MAC, NEXT_HOPS, UPLINK
from tests.live.gateway.external_host import EXTERNAL, NODE
from tests.live.gateway.host_kernel import kernel_of
from tests.live.gateway.packets import UDP, Packet
from tests.live.gateway.test_node_ports import OUTSIDE, POOL
from tests.live.gateway.test_services import NAMES, TENANTS, interface, request
from tests.pipeline import EVERYWHERE

ENDPOINTS = {
    "far": {4: "198.51.100.9", 6: "2001:db8:98::9"},
    "peer": {4: "192.0.2.12", 6: "2001:db8::c"},
    "own": NODE,
    "nic": {4: "203.0.113.11", 6: "2001:db8:3::b"},
}
PROCESSES = ("own", "nic")
HOSTS = {"far": "", "peer": ", nodeName: node2", **dict.fromkeys(PROCESSES, ", nodeName: node1")}
# Each network's Services are asked by a workload of the next one: of equal subnets, of other topologies.
ASKING = dict(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))
# Gateway modes and Layer2 topologies.
CLUSTERS = (("shared", "transit-router"), ("local", "transit-router"), ("shared", "gateway-router"))


def number(where: str, name: str) -> int:
    return 30000 + 10 * list(ENDPOINTS).index(name) + NAMES.index(where)


def manifests(policy: str) -> str:
    """A Service for each network and endpoint, with node port, external address and load balancer's address."""
    found = [TENANTS, POOL]
    for where, name in itertools.product(NAMES, ENDPOINTS):
        found.append(
            f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {where}}}\n"
            f"spec: {{type: LoadBalancer, ipFamilyPolicy: RequireDualStack, externalTrafficPolicy: {policy}, "
            f"externalIPs: [{', '.join(map(repr, OUTSIDE.values()))}], "
            f"ports: [{{protocol: UDP, port: {number(where, name) - 29000}, nodePort: {number(where, name)}}}]}}\n"
        )
        found += [
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
            f"metadata: {{name: {name}-{family}, namespace: {where}, labels: {{kubernetes.io/service-name: {name}}}}}\n"
            f"addressType: IPv{family}\nports: [{{protocol: UDP, port: 5353}}]\n"
            f"endpoints: [{{addresses: ['{address}']{HOSTS[name]}}}]\n"
            for family, address in ENDPOINTS[name].items()
        ]
    return "".join(found)


class Exchange:
    """Requests to Services, each with a payload and a source port of its own, and what became of them."""

    def __init__(self, host, family: int, mode: str, topology: str, policy: str) -> None:
        self.family = family
        settings = {**EVERYWHERE, "layer2_topology": topology}
        self.machine, self.zone = host(manifests(policy), mode, settings=settings, nics=True)
        self.kernel = kernel_of(self.machine, self.zone, NAMES)
        self.holders = (*NEXT_HOPS, ENDPOINTS["peer"][family])

    def targets(self, where: str, name: str) -> dict[str, tuple[str, int]]:
        """The addresses and ports of a Service on node1, by their kind."""
        network = interface(self.zone, where, "a")["network"]
        entry = self.zone.plan["services"][network][f"{where}/{name}"]
        port = entry["ports"][0]

        def of_family(found):
            return [one for one in found if (":" in one) == (self.family == 6)]

        (cluster_ip,) = of_family(entry["addresses"])
        held = of_family(one["address"] for one in entry["external"]["load_balancer"] if one["node"] == "node1")
        return {
            "cluster IP": (cluster_ip, port["port"]),
            "node port": (NODE[self.family], port["node_port"]),
            "external": (OUTSIDE[self.family], port["port"]),
            **({"load balancer": (held[0], port["port"])} if held else {}),
        }

    def until(self, condition, what: str) -> None:
        self.machine.exchange(lambda: self.kernel.step() and condition(), what, self.holders)

    def at(self, interface_name: str, text: bytes) -> list[Packet]:
        sent = self.machine.sent(interface_name)
        return [one for one in sent if isinstance(one, Packet) and one.payload == text]

    def from_workload(self, where: str, target: tuple[str, int], text: bytes) -> Packet:
        own = request(self.zone, where, "a", target[0], source_port=next(self.machine.ports))
        own = replace(own, target_port=target[1], payload=text)
        self.machine.receive(f"if-{where}", own.encode())
        return own

    def from_external_host(self, target: tuple[str, int], text: bytes, port: int = 0) -> Packet:
        port = port or next(self.machine.ports)
        own = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[self.family], target[0], UDP, port, target[1], payload=text)
        self.machine.receive(UPLINK, own.encode())
        return own

    def served(self, name: str, text: bytes) -> Packet:
        """Wait for a request at its endpoint, let it answer, and return the request as it arrived."""
        if name in PROCESSES:
            self.until(lambda: self._delivered(text), f"{text} at a process of the host")
            [seen] = self._delivered(text)
            self.kernel.reply(seen)
        else:
            self.until(lambda: self.at(UPLINK, text), f"{text} at the uplink")
            [seen] = self.at(UPLINK, text)
            assert seen.source == NODE[self.family]
            self.machine.receive(UPLINK, seen.answer().encode())
        assert (seen.target, seen.target_port) == (ENDPOINTS[name][self.family], 5353)
        return seen

    def _delivered(self, text: bytes) -> list[Packet]:
        return [one for one in self.kernel.delivered if one.payload == text]

    def answered(self, interface_name: str, sent: Packet, more: int = 0) -> None:
        """Wait for the answer, which comes from where the request was sent to."""
        self.until(lambda: len(self.at(interface_name, sent.payload)) > more, f"the answer to {sent.payload}")
        answer = self.at(interface_name, sent.payload)[more]
        assert (answer.source, answer.source_port) == (sent.target, sent.target_port)
        assert (answer.target, answer.target_port) == (sent.source, sent.source_port)


def all_targets(exchange: Exchange, names=tuple(ENDPOINTS)):
    """Network, endpoint, kind and address of all ways to all Services."""
    for where, name in itertools.product(NAMES, names):
        for kind, target in exchange.targets(where, name).items():
            yield where, name, kind, target


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("way", [(*one, "Cluster") for one in CLUSTERS], ids="-".join, scope="module")
def test_external_hosts_reach_all_endpoints(shared_host, family, way):
    """Also where client, its port and endpoint are those of a connection by way of another network."""
    exchange = Exchange(shared_host, family, *way)
    for where, name, kind, target in all_targets(exchange):
        if kind != "cluster IP":
            text = f"{where} {name} {kind}".encode()
            sent = exchange.from_external_host(target, text, port=40000)
            seen = exchange.served(name, text)
            assert seen.source != EXTERNAL[family]
            exchange.answered(UPLINK, sent, more=name not in PROCESSES)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("way", [(*one, "Local") for one in CLUSTERS[:2]], ids="-".join, scope="module")
def test_a_process_of_the_node_sees_external_clients_with_the_policy_local(shared_host, family, way):
    exchange = Exchange(shared_host, family, *way)
    for where, name, kind, target in all_targets(exchange, PROCESSES):
        if kind != "cluster IP":
            text = f"{where} {name} {kind}".encode()
            sent = exchange.from_external_host(target, text)
            assert exchange.served(name, text).source == EXTERNAL[family]
            exchange.answered(UPLINK, sent)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(
    "way", [(*one, policy) for policy in ("Cluster", "Local") for one in CLUSTERS[:2]], ids="-".join, scope="module"
)
def test_workloads_reach_all_endpoints(shared_host, family, way):
    """Those of the same network also by the cluster IP, those of another one by way of their host."""
    exchange = Exchange(shared_host, family, *way)
    for where, name, kind, target in all_targets(exchange):
        for client in (where, ASKING[where]) if kind != "cluster IP" else (where,):
            text = f"{client} to {where} {name} {kind}".encode()
            sent = exchange.from_workload(client, target, text)
            exchange.served(name, text)
            exchange.answered(f"if-{client}", sent)
