# SPDX-License-Identifier: Apache-2.0
"""External hosts as clients of node ports: affinity, policies of the endpoints, and endpoints with an EgressIP."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tests.live.gateway.conftest import MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, NODE
from tests.live.gateway.host_kernel import kernel_of
from tests.live.gateway.packets import UDP, Packet
from tests.live.gateway.test_egress_ips import egress_ip
from tests.live.gateway.test_node_ports import POOL, PORTS, exposed, targets
from tests.live.gateway.test_services import NAMES, TENANTS, received, request, server
from tests.matrix import pairwise

# Addresses for two Services of each network.
LARGE_POOL = POOL.replace("192.0.2.200/29", "192.0.2.192/28").replace("a00/125", "a00/124")
OTHER_EXTERNAL = {4: "198.51.100.8", 6: "2001:db8:99::8"}
CLIENT = {4: f"{EXTERNAL[4]}/32", 6: f"{EXTERNAL[6]}/128"}
# Join subnets of user-defined networks, and of the default one.
JOIN = ({4: "100.65.0.0/16", 6: "fd99::/64"}, {4: "100.64.0.0/16", 6: "fd98::/64"})
# In local gateway mode packets go through the host with the policy Local: test_entrances.py.
WAYS = [("shared", "Cluster"), ("shared", "Local"), ("local", "Cluster")]


def asked(name: str, family: int, text: str, source: str, source_port: int = 4000) -> Packet:
    """What an external host sends to the node port of a namespace's Service."""
    return Packet(
        NEXT_HOP_MAC, MAC, source, NODE[family], UDP, source_port, PORTS[name], payload=f"{name} {text}".encode()
    )  # fmt: skip


def arrived(machine, name: str, text: str, which: str = "b") -> list[Packet]:
    return [one for one in received(machine, name, which) if one.payload == f"{name} {text}".encode()]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("mode", "policy"), WAYS)
def test_a_client_stays_with_its_endpoint(shared_host, family, mode, policy):
    """With affinity all connections of one client have one endpoint; without, some of 16 have the other.

    By the node port and by the address of the load balancer. OVN remembers the client's own address, whatever endpoints
    see (ovn-northd(8), "Load balancing affinity learn").
    """
    affinity = "selector: {app: web}, sessionAffinity: ClientIP"
    services = [exposed(name, policy) for name in NAMES]
    services += [
        exposed(name, policy, "sticky", 100).replace("selector: {app: web}", affinity) for name in NAMES
    ]  # fmt: skip
    text = TENANTS + LARGE_POOL + "".join([*(server(name, "c") for name in NAMES), *services])
    machine, zone = shared_host(text, mode)
    ports = iter(range(10000, 60000))
    for name, (service, ends) in product(NAMES, {"sticky": 1, "web": 2}.items()):
        for number, (target, port) in enumerate(targets(zone, name, family, service)):
            text = f"{service} {number}"

            def counts(name=name, text=text):
                return [len({one.source_port for one in arrived(machine, name, text, end)}) for end in "bc"]

            def enough(name=name, text=text, target=target, port=port, counts=counts):
                packet = replace(asked(name, family, text, EXTERNAL[family], next(ports)), target=target)
                machine.receive(UPLINK, replace(packet, target_port=port).encode())
                machine.follow_learned_flows()
                return sum(counts()) >= 16

            machine.exchange(enough, f"requests to {name}")
            assert sum(count > 0 for count in counts()) == ends, (name, service, target)


def allowing(name: str, *blocks: str) -> str:
    """A policy for the endpoints of a namespace's Service that permits what comes from these addresses only."""
    peers = ", ".join(f"{{ipBlock: {{cidr: {one!r}}}}}" for one in blocks)
    return (
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
        f"metadata: {{name: web, namespace: {name}}}\n"
        f"spec: {{podSelector: {{matchLabels: {{app: web}}}}, ingress: [{{from: [{peers}]}}]}}\n"
    )


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", ["shared", "local"])
def test_a_policy_sees_the_gateway_router_with_the_policy_cluster(shared_host, family, mode):
    """A block of the client permits nothing, one of the join subnet every client."""
    by_client = ("flat", "deep")
    blocks = {name: CLIENT if name in by_client else JOIN[name == "plain"] for name in NAMES}
    services = "".join(exposed(name, "Cluster") + allowing(name, *blocks[name].values()) for name in NAMES)
    machine, _zone = shared_host(TENANTS + POOL + services, mode)
    # What is denied is sent before what is permitted.
    for name in sorted(NAMES, key=lambda name: name not in by_client):
        machine.receive(UPLINK, asked(name, family, "request", EXTERNAL[family]).encode())
        if name not in by_client:
            machine.exchange(lambda name=name: arrived(machine, name, "request"), f"the request to {name}")
    assert not [one for name in by_client for one in arrived(machine, name, "request")]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", ["shared", "local"])
def test_a_policy_sees_the_client_with_the_policy_local(shared_host, family, mode):
    """In local gateway mode the host's kernel hands what came in to the network, by the management port."""
    services = "".join(exposed(name, "Local") + allowing(name, *CLIENT.values()) for name in NAMES)
    machine, zone = shared_host(TENANTS + POOL + services, mode)
    kernel = kernel_of(machine, zone, NAMES)

    def until(condition, what: str) -> None:
        machine.exchange(lambda: kernel.step() and condition(), what)

    for name in NAMES:
        for number, (target, port) in enumerate(targets(zone, name, family)):
            denied = asked(name, family, f"denied {number}", OTHER_EXTERNAL[family], 4000 + number)
            machine.receive(UPLINK, replace(denied, target=target, target_port=port).encode())
            text = f"permitted {number}"
            request = asked(name, family, text, EXTERNAL[family], 4000 + number)
            request = replace(request, target=target, target_port=port)
            machine.receive(UPLINK, request.encode())
            until(lambda name=name, text=text: arrived(machine, name, text), f"the request to {name} by {target}")
            [seen] = arrived(machine, name, text)
            assert seen.source == EXTERNAL[family]
            machine.receive(f"if-{name}-b", seen.answer().encode())
            until(lambda name=name, text=text: answers(machine, f"{name} {text}"), f"the answer of {name}")
            assert answers(machine, f"{name} {text}") == [
                replace(request.answer(), source_mac=MAC, target_mac=NEXT_HOP_MAC)
            ]
    assert not [
        one
        for name in NAMES
        for one in received(machine, name, "b")
        if one.payload.startswith(f"{name} denied".encode())
    ]


def answers(machine, text: str) -> list[Packet]:
    sent = [one for one in machine.sent(UPLINK) if isinstance(one, Packet)]
    return [one for one in sent if one.payload == text.encode()]


@pytest.mark.parametrize(("way", "holder", "family"), pairwise(product(WAYS, ["node1", "node2"], [4, 6])))
def test_an_endpoint_with_an_egress_ip_answers_with_the_address_that_was_asked(host, way, holder, family):
    """On the node of the endpoint, whichever node has the EgressIP; its own connections leave with that."""
    mode, policy = way
    own = {name: {4: f"192.0.2.{100 + number}", 6: f"2001:db8::1:{number}"}[family]
           for number, name in enumerate(NAMES)}  # fmt: skip
    services = "".join(exposed(name, policy) + egress_ip(name, own[name]) for name in NAMES)
    machine, zone = host(TENANTS + POOL + services, mode, egress_hosts=(holder,))
    assert {one["node"] for entry in zone.plan["egress_ips"].values() for one in entry["addresses"]} == {holder}
    for name in NAMES:
        request = asked(name, family, "request", EXTERNAL[family])
        machine.receive(UPLINK, request.encode())
        machine.exchange(lambda name=name: arrived(machine, name, "request"), f"the request to {name}")
        [seen] = arrived(machine, name, "request")
        machine.receive(f"if-{name}-b", seen.answer().encode())
        machine.exchange(lambda name=name: answers(machine, f"{name} request"), f"the answer of {name}")
        [answer] = answers(machine, f"{name} request")
        assert answer == replace(request.answer(), source_mac=MAC, target_mac=NEXT_HOP_MAC)
        if holder == "node1":
            new = replace(outgoing(zone, name, family), payload=f"{name} own".encode())
            machine.receive(f"if-{name}-b", new.encode())
            machine.exchange(lambda name=name: answers(machine, f"{name} own"), f"what {name} sends")
            assert {one.source for one in answers(machine, f"{name} own")} == {own[name]}


def outgoing(zone, name: str, family: int) -> Packet:
    """What the endpoint sends to an external host from another port than that of its answers."""
    return replace(request(zone, name, "b", EXTERNAL[family]), source_port=6000, target_port=7)
