# SPDX-License-Identifier: Apache-2.0
"""Services of a Layer2 network in all stages of its topology's upgrade (OKEP-5094, "Rolling upgrade")."""

from __future__ import annotations

import itertools
from dataclasses import replace
from ipaddress import IPv6Address, IPv6Network

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import link_local_address
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.layer2_steps import change_version, drain
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import synchronise
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.store.layer2_version import TRANSIT_ROUTER
from tests.live.conftest import START_TIMEOUT
from tests.live.gateway.conftest import MAC, NEXT_HOP_MAC, UPLINK, interface_of
from tests.live.gateway.external_host import EXTERNAL, NODE
from tests.live.gateway.host_kernel import kernel_of
from tests.live.gateway.packets import TCP, UDP, Packet, announced_prefixes, read_capture, router_solicitation
from tests.live.gateway.test_node_ports import POOL, exposed, targets
from tests.live.gateway.test_services import (
    HAIRPIN,
    HTTP,
    address,
    cluster_ip,
    interface,
    received,
    request,
    server,
    service,
)
from tests.pipeline import EVERYWHERE, decide, layer2, namespace, with_gateways, workload

SETTINGS = {**EVERYWHERE, "layer2_topology": "gateway-router"}
NETWORK = namespace("flat") + layer2("flat", "net", "10.50.0.0/24", "fd50::/64")
ENDS = workload("flat", "a", "node1") + server("flat", "b")
SERVICES = service("flat", "web", "web", HTTP) + service(
    "flat", "sticky", "web", HTTP, more=", sessionAffinity: ClientIP"
)
MANIFESTS = NETWORK + ENDS + SERVICES
STAGES = {"old": (), "mixed, old": ("node3",), "mixed, new": ("node1",), "new": ("node1", "node2", "node3")}
MODES = ("shared", "local")


def plan_at(upgraded, mode, text):
    """The plan when these nodes are upgraded."""
    state, problems = decide(NETWORK, settings=SETTINGS, hosts=with_gateways(mode))
    for name in upgraded:
        state, _moves, blockers = drain(state, [name], TRANSIT_ROUTER)
        assert not blockers
        state, blockers = change_version(state, [name], TRANSIT_ROUTER)
        assert not blockers
    state, more = decide(text, state, settings=SETTINGS, hosts=with_gateways(mode))
    assert not problems + more
    return build_plan(state)


def stages(machine, zone, mode, text):
    """The names of all stages, there and back, each when node1 has what it is to have then."""
    plans = {stage: plan_at(upgraded, mode, text) for stage, upgraded in STAGES.items()}
    for stage in (*STAGES, *[*STAGES][-2::-1]):
        plan = plans[stage]
        zone.bring(plan, "node1")
        machine.apply(plan)
        # The flows of ports that came with this stage, too: all answers are to be those of this stage.
        with zone.northbound.client() as client, zone.southbound.client() as reader:
            synchronise(client, reader, START_TIMEOUT, chassis="chassis-of-node1")
        machine.forget()
        yield stage


def call(machine, zone, name, which, family, number):
    """Connect, each time from another port, until the request arrives, and answer it."""
    target, ports = cluster_ip(zone, "flat", name, family), itertools.count(number)
    sent = {}

    def arrived():
        one = request(zone, "flat", which, target, TCP, source_port=next(ports))
        sent[one.source_port] = one
        machine.receive(interface_of("flat", which), one.encode())
        return [one for one in received(machine, "flat", "b") if one.source_port in sent]

    machine.exchange(arrived, f"a request to {name} of {which}, IPv{family}")
    seen = arrived()[0]
    own = sent[seen.source_port]
    assert (seen.source, seen.target_port) == (HAIRPIN[family] if which == "b" else own.source, 8080)
    machine.receive(interface_of("flat", "b"), seen.answer().encode())
    answer = target, 80, own.source_port

    def answered():
        return answer in {(one.source, one.source_port, one.target_port) for one in received(machine, "flat", which)}

    machine.exchange(answered, f"the answer of {name} to {which}, IPv{family}")


def on_link_prefixes(machine, zone):
    """What a router advertisement declares to be reached without a router."""
    own = interface(zone, "flat", "b")["mac"]
    capture = machine.folder / f"{interface_of('flat', 'b')}.pcap"
    before = len(read_capture(capture))
    machine.receive(interface_of("flat", "b"), router_solicitation(own, link_local_address(own)))

    def announced():
        return [prefix for frame in read_capture(capture)[before:] for prefix in announced_prefixes(frame)]

    machine.exchange(announced, "a router advertisement")
    return announced()


@pytest.mark.parametrize("mode", MODES)
def test_services_in_all_stages(host, mode):
    """With and without affinity, from another workload and from the endpoint itself.

    The endpoint sees itself as the hairpin address, and answers it by way of its gateway: no advertisement may declare
    that address on-link, where no host answers for it.
    """
    machine, zone = host(MANIFESTS, mode, settings=SETTINGS)
    numbers = itertools.count(10000, 400)
    for stage in stages(machine, zone, mode, MANIFESTS):
        for family, name, which in itertools.product((4, 6), ("web", "sticky"), "ab"):
            call(machine, zone, name, which, family, next(numbers))
        prefixes = on_link_prefixes(machine, zone)
        assert IPv6Network("fd50::/64") in prefixes, stage
        assert not [one for one in prefixes if IPv6Address(HAIRPIN[6]) in one], stage


class Outside:
    """UDP between node1's workloads and an external host, each request with a payload of its own."""

    def __init__(self, machine, zone) -> None:
        self.machine, self.zone, self.kernel = machine, zone, kernel_of(machine, zone, ["flat"])

    def one(self, device: str, payload: bytes) -> Packet:
        """Wait for a packet at an interface; exactly one has the payload."""

        def seen() -> list[Packet]:
            sent = self.machine.sent(device)
            return [one for one in sent if isinstance(one, Packet) and one.payload == payload]

        self.machine.exchange(lambda: self.kernel.step() and seen(), f"{payload} at {device}")
        [found] = seen()
        return found

    def asks(self, request: Packet) -> Packet:
        """Let the external host ask the endpoint, and get its answer; returns the request as it arrived."""
        self.machine.receive(UPLINK, request.encode())
        arrived = self.one(interface_of("flat", "b"), request.payload)
        self.machine.receive(interface_of("flat", "b"), arrived.answer().encode())
        assert self.one(UPLINK, request.payload) == replace(request.answer(), source_mac=MAC, target_mac=NEXT_HOP_MAC)
        return arrived

    def is_asked(self, request: Packet) -> Packet:
        """Let a workload ask the external host, and get its answer; returns the request as it left."""
        self.machine.receive(interface_of("flat"), request.encode())
        left = self.one(UPLINK, request.payload)
        self.machine.receive(UPLINK, left.answer().encode())
        answer = self.one(interface_of("flat"), request.payload)
        assert (answer.source, answer.target, answer.target_port) == (
            request.target, request.source, request.source_port,
        )  # fmt: skip
        return left


@pytest.mark.parametrize(("mode", "policy"), [*itertools.product(MODES, ("Cluster", "Local"))])
def test_external_hosts_in_all_stages(host, mode, policy):
    """By node port, external address and load balancer, and as one whom workloads ask."""
    text = NETWORK + ENDS + POOL + exposed("flat", policy)
    machine, zone = host(text, mode, settings=SETTINGS)
    numbers = itertools.count(4000)
    for stage in stages(machine, zone, mode, text):
        outside = Outside(machine, zone)
        for family in (4, 6):
            for target, port in targets(zone, "flat", family):
                number = next(numbers)
                asked = Packet(
                    NEXT_HOP_MAC, MAC, EXTERNAL[family], target, UDP, number, port, payload=f"in {number}".encode()
                )
                seen = outside.asks(asked)
                assert (seen.target, seen.target_port) == (address(zone, "flat", "b", family), 5353), stage
                assert (seen.source == EXTERNAL[family]) == (policy == "Local"), (stage, seen)
            own = request(zone, "flat", "a", EXTERNAL[family], source_port=next(numbers))
            own = replace(own, payload=f"out {own.source_port}".encode())
            assert outside.is_asked(own).source == NODE[family], stage
