# SPDX-License-Identifier: Apache-2.0
"""Packets of workloads with an EgressIP through OVN and the provider bridge, and back.

node1 holds the addresses. Networks with equal subnets, workloads with equal addresses: one has an EgressIP, the other
one has none.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.address_holders import update_holders
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.reconcile import write_changed_flows
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.switch import Switch
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.handover import prepared_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.egress_flows import render_egress_flows
from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, NAMES, NODE, conversations, request_of
from tests.live.gateway.packets import UDP, Answer, Packet, Question
from tests.matrix import each_value, pairwise
from tests.pipeline import stored

LABELS = {"k8s.ovn.org/egress-assignable": ""}
# By address family: the namespaces with an EgressIP, on Layer2, Layer3 and the default network.
EGRESS = {
    4: {"flat": "192.0.2.100", "deep": "192.0.2.101", "plain": "192.0.2.102"},
    6: {"flat": "2001:db8::100", "deep": "2001:db8::101", "plain": "2001:db8::102"},
}
OTHER_NODE = {4: "192.0.2.12", 6: "2001:db8::c"}


def egress_ip(name: str, address: str) -> str:
    spec = {"egressIPs": [address], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    document = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP", "metadata": {"name": name}, "spec": spec}
    return f"---\n{json.dumps(document)}\n"


def started(host, mode: str, family: int):
    text = MANIFESTS + "".join(egress_ip(name, address) for name, address in EGRESS[family].items())
    return host(text, mode, labels=LABELS)


@pytest.mark.parametrize("mode", ["local", "shared"])
@pytest.mark.parametrize("family", [4, 6], scope="module")
def test_connections_leave_with_the_egress_address_and_get_their_replies(shared_host, family, mode):
    machine, zone = started(shared_host, mode, family)
    assert not machine.apply(zone.plan).changed
    expected = {name: EGRESS[family].get(name, NODE[family]) for name in NAMES if mode == "shared" or name in EGRESS[4]}
    for seen in conversations(machine, zone, family, expected):
        assert {name: packet.source for name, packet in seen.items()} == expected
        assert {(packet.source_mac, packet.target_mac) for packet in seen.values()} == {(MAC, NEXT_HOP_MAC)}


@pytest.mark.parametrize(("family", "mode"), each_value([(4, "shared"), (6, "local"), (4, "local"), (6, "shared")]))
def test_one_address_for_workloads_of_all_networks(host, family, mode):
    """Their networks have equal subnets, workloads equal addresses, and all send from one port to one port."""
    address = EGRESS[family]["flat"]
    spec = {"egressIPs": [address], "namespaceSelector": {}}
    document = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP", "metadata": {"name": "all"}, "spec": spec}
    machine, zone = host(f"{MANIFESTS}---\n{json.dumps(document)}\n", mode, labels=LABELS)
    assert len(zone.plan["egress_ips"]["all"]["workloads"]) == len(NAMES)
    for seen in conversations(machine, zone, family):
        assert {name: packet.source for name, packet in seen.items()} == dict.fromkeys(NAMES, address)
        # Replies find their connection by these.
        assert len({packet.source_port for packet in seen.values()}) == len(NAMES)


@pytest.mark.parametrize("family", [4, 6])
def test_address_on_another_nic_leads_to_the_management_port(host, family):
    """From there on it is the kernel's (`tests/live/nftables/test_egress_nics.py`)."""
    address = {4: "203.0.113.100", 6: "2001:db8:3::100"}[family]
    machine, zone = host(MANIFESTS + egress_ip("plain", address), labels=LABELS, nics=True)
    request = request_of(zone, "plain", UDP, family)
    machine.receive("if-plain", request.encode())

    def at(interface: str, end: str) -> list[Packet]:
        return [
            one for one in machine.sent(interface) if isinstance(one, Packet) and getattr(one, end) == EXTERNAL[family]
        ]

    machine.exchange(lambda: at("ovn-k8s-mp0", "target"), "the packet at the management port")
    (packet,) = at("ovn-k8s-mp0", "target")
    assert (packet.source, packet.payload) == (request.source, b"plain")
    machine.receive("ovn-k8s-mp0", packet.answer().encode())
    machine.exchange(lambda: at("if-plain", "source"), "the reply")
    assert not at(UPLINK, "target")


@pytest.mark.parametrize("family", [4, 6], scope="module")
def test_other_nodes_are_reached_with_the_address_of_the_node(shared_host, family):
    """An EgressIP is for what is beyond the cluster (ovn-kubernetes, policies 102 with the mark 1008)."""
    machine, zone = started(shared_host, "shared", family)
    for name in EGRESS[family]:
        request = replace(request_of(zone, name, UDP, family), target=OTHER_NODE[family])
        machine.receive(f"if-{name}", request.encode())

    def seen() -> dict[str, str]:
        found = [one for one in machine.sent(UPLINK) if isinstance(one, Packet) and one.target == OTHER_NODE[family]]
        return {one.payload.decode(): one.source for one in found}

    machine.exchange(lambda: len(seen()) == len(EGRESS[family]), "what was sent to the other node",
                     holders=(OTHER_NODE[family],))  # fmt: skip
    assert seen() == dict.fromkeys(EGRESS[family], NODE[family])


@pytest.mark.parametrize("family", [4, 6], scope="module")
def test_new_connections_to_an_egress_address_reach_no_workload(shared_host, family):
    machine, _zone = started(shared_host, "shared", family)
    for number, address in enumerate(EGRESS[family].values()):
        intruder = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], address, UDP, 4000, 5000 + number, payload=b"intruder")
        machine.receive(UPLINK, intruder.encode())
        # The host holds the address and answers for it; whether something listens there is up to the host.
        machine.exchange(lambda intruder=intruder: intruder in machine.sent(BRIDGE), "the packet at the host")
    for name in NAMES:
        assert not [one for one in machine.sent(f"if-{name}") if isinstance(one, Packet) and one.payload == b"intruder"]


def ask(machine, zone, family: int, text: str, *awaited: str) -> tuple[dict[str, str], set[str]]:
    """Workloads send once more, and a neighbour asks for the addresses: who leaves with what, what is answered."""
    before = len(machine.sent(UPLINK))
    # The node's address, which is always answered for, is asked for last: answers of IPv6 are ovn-controller's.
    asked = [Question(NEXT_HOP_MAC, EXTERNAL[family], one) for one in (*EGRESS[family].values(), NODE[family])]

    def send() -> None:
        for one in asked:
            machine.receive(UPLINK, one.encode())
        # Those without an EgressIP last.
        for name in sorted(NAMES, key=lambda name: name not in EGRESS[family]):
            packet = replace(request_of(zone, name, UDP, family), payload=f"{text} {name}".encode())
            machine.receive(f"if-{name}", packet.encode())

    def left() -> dict[str, str]:
        found = [one for one in machine.sent(UPLINK)[before:] if isinstance(one, Packet)]
        return {
            one.payload.decode().partition(" ")[2]: one.source for one in found if one.payload.startswith(text.encode())
        }

    def answered() -> set[str]:
        return {one.address for one in machine.sent(UPLINK)[before:] if isinstance(one, Answer)}

    machine.repeat_until(
        lambda: set(awaited) <= left().keys() and NODE[family] in answered(), send, "what workloads sent"
    )
    return left(), answered() & set(EGRESS[family].values())


@pytest.mark.parametrize("family", [4, 6])
def test_nothing_leaves_with_an_address_that_moves_and_nothing_answers_for_it(host, family):
    """As on a new host before it has the addresses, with all rows, and on a former one after it; by the flows alone."""
    machine, zone = started(host, "shared", family)
    expected = {name: EGRESS[family].get(name, NODE[family]) for name in NAMES}
    conversations(machine, zone, family, expected)
    withheld = {**zone.plan, "unannounced": list(EGRESS[family].values())}

    def change(before: dict, after: dict, *, removing: bool) -> None:
        flows = [render_egress_flows(plan, "node1") for plan in (before, after)]
        with machine.vswitch.client() as client:
            assert write_changed_flows(Switch(client, machine.run), *flows, removing=removing).changed
            assert not write_changed_flows(Switch(client, machine.run), *flows, removing=removing).changed
        assert not machine.apply(after, write=False).changed
        machine.follow_learned_flows()

    change(zone.plan, withheld, removing=False)
    others = {name: one for name, one in expected.items() if name not in EGRESS[family]}
    assert ask(machine, zone, family, "withheld", *others) == (others, set())
    change(withheld, zone.plan, removing=True)
    left, answered = ask(machine, zone, family, "held", *NAMES)
    assert left == expected
    # By the router of the default network; the kernel answers for all of them.
    assert answered == {EGRESS[family]["plain"]}


@pytest.mark.parametrize(
    ("former", "family", "mode"), pairwise(product(["node1", "node2"], [4, 6], ["shared", "local"]))
)
def test_an_address_that_has_not_left_its_host_is_used_there_and_nowhere_else(host, family, mode, former):
    """node1 has addresses and could not give them up, or has prepared for those that node2 could not give up."""
    text = MANIFESTS + "".join(egress_ip(name, address) for name, address in EGRESS[family].items())
    labels, others = (LABELS, ()) if former == "node1" else ({}, ("node2",))
    machine, zone = host(text, mode, labels=labels, egress_hosts=others)
    new = {"node1": "node2", "node2": "node1"}[former]
    hosts = {name: {**one, "labels": LABELS if name == new else {}} for name, one in zone.hosts.items()}
    moving = stored(text, stored(text, hosts=zone.hosts), hosts=hosts)
    moved = dict.fromkeys(EGRESS[family].values(), former)
    waiting = prepared_plan(build_plan(moving), "node1", moved)
    update_holders(moving, moving, "2026-01-01T00:00:00Z", kept=moved)
    with_addresses = {name: EGRESS[family].get(name, NODE[family]) for name in NAMES}
    own = {name: one for name, one in with_addresses.items() if mode == "shared" or name in EGRESS[family]}
    expected = own if former == "node1" else {name: one for name, one in own.items() if name not in EGRESS[family]}
    for stage, plan in (("waiting", waiting), ("kept", build_plan(moving))):
        zone.bring(plan, "node1")
        machine.apply(plan)
        machine.follow_learned_flows()
        left, answered = ask(machine, zone, family, stage, *expected)
        assert left == expected
        assert answered == ({EGRESS[family]["plain"]} if former == "node1" else set())
