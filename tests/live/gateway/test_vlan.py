# SPDX-License-Identifier: Apache-2.0
"""A provider network with a VLAN: the host and the gateway routers are in that VLAN and in no other."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway import bridge_flows, neighbour_flows
from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, NEXT_HOPS, UPLINK
from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, NAMES, NODE, request_of
from tests.live.gateway.packets import UDP, Answer, Packet, Question, read_capture, tag_of
from tests.pipeline import plan_of, with_gateways

VLAN, OTHER = 100, 200


def to_host(family: int, port: int) -> Packet:
    return Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], NODE[family], UDP, port, 22, payload=b"host")


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("other", [OTHER, 0])
def test_frames_of_another_vlan_are_dropped(shared_host, family, other):
    machine, _zone = shared_host(MANIFESTS, vlan=VLAN)
    foreign, own = to_host(family, 4000), to_host(family, 4001)
    machine.receive(UPLINK, foreign.encode(), vlan=other)
    neighbour = {4: "192.0.2.77", 6: "2001:db8::77"}[family]
    asks = Question(NEXT_HOP_MAC, neighbour, NODE[family]).encode()
    machine.receive(UPLINK, asks, vlan=other)
    machine.receive(UPLINK, own.encode())
    # Later ones of the same kinds, in the provider network's VLAN; ovn-controller answers those of IPv6.
    machine.receive(UPLINK, Question(NEXT_HOP_MAC, NEXT_HOPS[0 if family == 4 else 1], NODE[family]).encode())
    answered = lambda: any(isinstance(one, Answer) and one.address == NODE[family] for one in machine.sent(UPLINK))  # noqa: E731
    machine.exchange(lambda: own in machine.sent(BRIDGE) and answered(), "packet and answer in the VLAN")
    assert foreign not in machine.sent(BRIDGE)
    assert not [one for one in machine.sent(BRIDGE) if isinstance(one, Question) and one.source == neighbour]
    replies = [one for one in read_capture(machine.folder / f"{UPLINK}.pcap") if tag_of(one) == other]
    assert not replies


@pytest.mark.parametrize("group", [50, 1])
@pytest.mark.parametrize("family", [4, 6])
def test_external_connections_and_replies_with_vlan(host, family, group, monkeypatch):
    monkeypatch.setattr(neighbour_flows, "GROUP_SIZE", group)
    machine, zone = host(MANIFESTS, vlan=VLAN)
    requests = {name: request_of(zone, name, UDP, family) for name in NAMES}
    for name, packet in requests.items():
        machine.receive(f"if-{name}", packet.encode())

    def external() -> dict[str, Packet]:
        found = [packet for packet in machine.sent(UPLINK) if isinstance(packet, Packet)]
        return {packet.payload.decode(): packet for packet in found if packet.target == EXTERNAL[family]}

    machine.exchange(lambda: len(external()) == len(NAMES), "what the workloads sent")
    assert {packet.source for packet in external().values()} == {NODE[family]}
    for packet in external().values():
        machine.receive(UPLINK, packet.answer().encode())
    for name in NAMES:
        machine.exchange(
            lambda name=name: [
                one for one in machine.sent(f"if-{name}") if isinstance(one, Packet) and one.source == EXTERNAL[family]
            ],
            f"the reply to {name}",
        )


def test_vlan_tag_is_popped_before_ct_actions(monkeypatch):
    """The kernel's datapath refuses MPLS labels on tagged frames (Linux, net/openvswitch/flow_netlink.c)."""
    monkeypatch.setattr(neighbour_flows, "GROUP_SIZE", 1)
    plan = plan_of(MANIFESTS, hosts=with_gateways("shared", vlan=VLAN))
    found = [flow.actions for flow in bridge_flows.render_bridge_flows(plan, "node1") if "push_mpls" in flow.actions]
    assert found
    for actions in found:
        words = actions.split(",")
        for place, word in enumerate(words):
            if word.startswith("push_mpls"):
                assert words[place - 1] == "strip_vlan"
                assert words[place + 2] == f"mod_vlan_vid:{VLAN}"
