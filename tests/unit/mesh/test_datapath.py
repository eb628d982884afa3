# SPDX-License-Identifier: Apache-2.0
"""Frames of the bridge to messages for it; the bridge itself is in tests/live/mesh."""

from __future__ import annotations

import random
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.mesh import heartbeat
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.forwarding import Tunnel
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.gossip import Gossip
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.peers import vni
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon import datapath, flows
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.datapath import Datapath
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.switch import (
    DIALECT,
    encoded,
    ofproto,
    parser,
)

OWN, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"
A, B, FAR = "0a:00:00:00:00:01", "0a:00:00:00:00:02", "0a:00:00:00:00:03"
VXLAN, PORT_A, PORT_B = 1, 2, 3
NETWORK = 7


class Bridge:
    """A datapath with two workloads and a neighbour; `messages` are those that it sent since the last `take`."""

    def __init__(self):
        self.messages, self.heartbeats, self.fallbacks = [], [], []
        self.answer = None
        self.gossip, far = (Gossip(name, number, random.Random(number)) for number, name in ((1, OWN), (2, OTHER)))
        for one, other in ((self.gossip, far), (far, self.gossip)):
            one.established(other.name)
        self.gossip.receive(far.everything())
        self.datapath = Datapath(
            self.gossip, "192.0.2.1", lambda *messages: self.messages.extend(messages),
            lambda *received: self.heartbeats.append(received), self._over_fallback, 0,
        )  # fmt: skip
        self.datapath.set_peers(["192.0.2.2"])
        self.datapath.set_networks({NETWORK: {"a": A, "b": B}}, {})
        self.ports(**{"heddle-vxlan": VXLAN, "a": PORT_A, "b": PORT_B})
        self.datapath.set_neighbours({OTHER: "192.0.2.2"})
        self.take()

    def _over_fallback(self, *sent):
        self.fallbacks.append(sent)
        return self.answer

    def ports(self, flags=0, **numbers):
        body = [SimpleNamespace(name=name.encode(), port_no=number) for name, number in numbers.items()]
        self.datapath.received(parser.OFPPortDescStatsReply(DIALECT, body=body, flags=flags), 0)

    def frame(self, source, target, *, port=VXLAN, tag=b"", data=None, **fields):
        """A frame that no flow matched."""
        if data is None:
            data = bytes.fromhex((target + source).replace(":", "")) + tag + b"\x08\x00" + bytes(46)
        if port == VXLAN:
            fields = {"tun_ipv4_src": "192.0.2.2", "tun_ipv4_dst": "192.0.2.1", "tunnel_id": self.vni(), **fields}
        message = parser.OFPPacketIn(DIALECT, match=parser.OFPMatch(in_port=port, **fields), data=data)
        self.datapath.received(message, 0)
        return self.take()

    def vni(self):
        return vni(self.gossip.short_id(OTHER), self.gossip.short_id(OWN))

    def take(self):
        taken, self.messages[:] = list(self.messages), []
        # What cannot be encoded would fail on a real bridge.
        assert all(map(encoded, taken))
        return taken


TAG = b"\x81\x00" + NETWORK.to_bytes(2, "big")


def kinds(messages):
    return [type(message).__name__.removeprefix("OFP") for message in messages]


def test_unknown_destination_is_flooded_without_a_flow():
    (sent,) = Bridge().frame(A, FAR, port=PORT_A)
    assert [one.port for one in sent.actions if isinstance(one, parser.OFPActionOutput)] == [PORT_B, VXLAN]
    assert any(isinstance(one, parser.OFPActionPushVlan) for one in sent.actions)


def test_known_destination_makes_a_flow_before_its_frame_is_sent():
    bridge = Bridge()
    bridge.frame(FAR, A, tag=TAG)
    assert bridge.datapath.where(NETWORK, FAR) == ("peer", OTHER)
    made, sent = bridge.frame(A, FAR, port=PORT_A)
    assert kinds([made, sent]) == ["FlowMod", "PacketOut"]
    cookie = flows.LEARNED_COOKIE | 1 << 17 | NETWORK
    assert (made.cookie, made.match["in_port"], made.match["eth_dst"]) == (cookie, PORT_A, FAR)


def test_frames_of_a_tunnel_lose_the_tag_of_the_mesh():
    bridge = Bridge()
    bridge.frame(A, FAR, port=PORT_A)
    made, sent = bridge.frame(FAR, A, tag=TAG)
    assert kinds(sent.actions) == ["ActionPopVlan", "ActionOutput"]
    assert made.match["vlan_vid"] == ofproto.OFPVID_PRESENT | NETWORK


def test_frames_of_other_networks_and_senders_are_dropped():
    bridge = Bridge()
    assert bridge.frame(FAR, A, tag=b"\x81\x00\x00\x08") == []
    assert bridge.frame(FAR, A) == []
    assert bridge.frame(FAR, A, tag=TAG, tun_ipv4_src="192.0.2.9") == []
    assert bridge.frame(A, FAR, port=9) == []
    assert bridge.datapath.dropped == {"192.0.2.9 is no neighbour": 1}


def test_heartbeats_make_no_flow():
    bridge = Bridge()
    frame = heartbeat.frame(5, 1400, 1)
    assert bridge.frame("", "", data=frame) == []
    assert bridge.heartbeats == [("192.0.2.2", bridge.vni(), frame)]


def total(asked, packets):
    """The answer to a request for the packets of flows."""
    body = parser.OFPAggregateStats(packet_count=packets, byte_count=0, flow_count=1)
    reply = parser.OFPAggregateStatsReply(DIALECT, body=body)
    reply.set_xid(asked.xid)
    return reply


def test_neighbours_that_frames_go_to_are_known_by_frames_and_by_counters():
    """One that frames are only flooded to, or received from, is not in use: heartbeats to it may be few."""
    bridge = Bridge()
    third, near = "02:00:00:00:00:03", Gossip(OTHER, 2, random.Random(2))
    other = Gossip(third, 3, random.Random(3))
    for name in (OWN, third):
        near.established(name)
    for one, name in ((bridge.gossip, third), (other, OWN)):
        one.established(name)
    bridge.gossip.receive(other.everything())
    bridge.datapath.set_peers(["192.0.2.2", "192.0.2.3"])
    bridge.datapath.set_neighbours({OTHER: "192.0.2.2", third: "192.0.2.3"})
    bridge.take()
    bridge.datapath.used = 0

    def used():
        return bridge.datapath.used_to("192.0.2.2"), bridge.datapath.used_to("192.0.2.3")

    def frame(source, target, now, **fields):
        data = bytes.fromhex((target + source).replace(":", "")) + (TAG if fields else b"") + b"\x08\x00" + bytes(46)
        match = parser.OFPMatch(in_port=VXLAN if fields else PORT_A, **fields)
        bridge.datapath.received(parser.OFPPacketIn(DIALECT, match=match, data=data), now)
        return bridge.take()

    assert len([one for one in frame(A, FAR, 1)[0].actions if isinstance(one, parser.OFPActionOutput)]) == 3
    frame(FAR, A, 2, tun_ipv4_src="192.0.2.2", tun_ipv4_dst="192.0.2.1", tunnel_id=bridge.vni())
    assert used() == (0, 0)
    frame(A, FAR, 3)
    assert used() == (3, 0)
    bridge.datapath.ask_use()
    (all_flows,) = bridge.take()
    bridge.datapath.received(total(all_flows, 5), 4)
    (of_one,) = bridge.take()
    assert (of_one.cookie >> 17 & flows.MOST_NEIGHBOURS, used()) == (1, (3, 0))
    bridge.datapath.received(total(of_one, 5), 5)
    assert used() == (5, 0)
    bridge.datapath.received(total(of_one, 5), 6)
    assert used() == (5, 0)


def test_use_is_seen_in_frames_and_in_counters_of_learned_flows():
    bridge = Bridge()

    def count(packets, now):
        bridge.datapath.ask_use()
        (asked,) = bridge.take()
        # Flows of heartbeats have the cookie without the bit of learned ones.
        assert asked.cookie & asked.cookie_mask != flows.COOKIE & asked.cookie_mask
        bridge.datapath.received(total(asked, packets), now)
        return bridge.datapath.used

    assert [count(0, 1), count(7, 2), count(7, 3), count(5, 4), count(5, 5)] == [0, 2, 2, 4, 4]
    frame = heartbeat.frame(7, 1400, 1)
    message = parser.OFPMatch(in_port=VXLAN, tun_ipv4_src="192.0.2.2", tunnel_id=bridge.vni())
    bridge.datapath.received(parser.OFPPacketIn(DIALECT, match=message, data=frame), 6)
    assert bridge.datapath.used == 4
    data = bytes.fromhex((B + A).replace(":", "")) + b"\x08\x00" + bytes(46)
    bridge.datapath.received(parser.OFPPacketIn(DIALECT, match=parser.OFPMatch(in_port=PORT_A), data=data), 7)
    assert bridge.datapath.used == 7


def test_what_waits_for_the_bridge_goes_on_when_it_hands_a_frame_back():
    bridge, done = Bridge(), []

    def handed_back(message, port=ofproto.OFPP_CONTROLLER):
        match = parser.OFPMatch(in_port=port)
        bridge.datapath.received(parser.OFPPacketIn(DIALECT, match=match, data=message.data), 2)

    for name in "abc":
        bridge.datapath.after_frames(lambda name=name: done.append(name), 1)
    first, second, third = bridge.take()
    assert {one.actions[0].port for one in (first, second, third)} == {ofproto.OFPP_CONTROLLER}
    # A workload cannot send such a frame.
    handed_back(first, PORT_A)
    assert done == []
    # Threads may overtake each other: what the later one has passed the earlier one has passed, too.
    handed_back(second)
    handed_back(first)
    assert done == ["a", "b"]
    bridge.datapath.give_up(2.9)
    assert done == ["a", "b"]
    bridge.datapath.give_up(3.0)
    assert done == ["a", "b", "c"]
    handed_back(third)
    bridge.datapath.after_frames(lambda: done.append("d"), 4)
    bridge.datapath.gone()
    bridge.datapath.after_frames(lambda: done.append("e"), 4)
    assert done == ["a", "b", "c", "d", "e"]
    assert not bridge.datapath.is_ready


def test_change_of_the_mesh_deletes_the_learned_flows_only():
    bridge = Bridge()
    bridge.frame(A, FAR, port=PORT_A)
    bridge.frame(FAR, A, tag=TAG)
    assert bridge.datapath.flows_of("192.0.2.2") == 1
    bridge.datapath.set_neighbours({})
    assert bridge.datapath.flows_of("192.0.2.2") == 0
    (deleted,) = bridge.take()
    assert (deleted.command, deleted.cookie) == (ofproto.OFPFC_DELETE, flows.LEARNED_COOKIE | NETWORK)


def test_new_port_makes_all_flows_anew():
    bridge = Bridge()
    bridge.ports(**{"heddle-vxlan": VXLAN, "a": 5, "b": PORT_B})
    first, *others = bridge.take()
    assert (first.command, first.cookie_mask) == (ofproto.OFPFC_DELETE, 0)
    assert sorted(one.match["in_port"] for one in others) == [VXLAN, VXLAN, PORT_B, 5]


def test_ports_of_all_parts_of_the_answer_are_known():
    """OpenFlow 1.3.5, section 7.3.5: with many ports the bridge answers in several messages."""
    bridge = Bridge()
    bridge.datapath.restarted()
    bridge.ports(flags=ofproto.OFPMPF_REPLY_MORE, **{"heddle-vxlan": VXLAN, "a": PORT_A})
    assert not bridge.datapath.is_ready
    bridge.ports(b=PORT_B)
    assert bridge.datapath.is_ready
    assert {one.match["in_port"] for one in bridge.take() if one.match is not None and "in_port" in one.match} == {
        VXLAN, PORT_A, PORT_B,
    }  # fmt: skip
    # What an ended connection did not complete is no part of the next answer.
    bridge.ports(flags=ofproto.OFPMPF_REPLY_MORE, **{"heddle-vxlan": VXLAN})
    bridge.datapath.restarted()
    bridge.ports(a=PORT_A)
    assert not bridge.datapath.is_ready


def test_frames_to_a_neighbour_over_the_fallback_make_no_flow_and_have_no_tag():
    bridge = Bridge()
    bridge.frame(FAR, A, tag=TAG)
    bridge.datapath.set_neighbours({OTHER: "192.0.2.2"}, frozenset({OTHER}))
    bridge.take()
    assert bridge.frame(A, FAR, port=PORT_A) == []
    ((tunnel, network, frame, notify),) = bridge.fallbacks
    assert (tunnel.destination, network, frame[12:14], notify) == ("192.0.2.2", NETWORK, b"\x08\x00", True)
    # The answer to a packet that is too big goes to the port that it came from.
    bridge.answer = b"answer"
    (sent,) = bridge.frame(A, FAR, port=PORT_A)
    assert (sent.data, [one.port for one in sent.actions]) == (b"answer", [PORT_A])


def test_frame_of_the_fallback_goes_to_its_port_and_makes_no_flow():
    bridge = Bridge()
    bridge.frame(A, FAR, port=PORT_A)
    frame = bytes.fromhex((A + FAR).replace(":", "")) + b"\x08\x00" + bytes(46)
    bridge.datapath.from_fallback(Tunnel(bridge.vni(), "192.0.2.2", "192.0.2.1"), NETWORK, frame, 0)
    (sent,) = bridge.take()
    assert (kinds([sent]), sent.data, [one.port for one in sent.actions]) == (["PacketOut"], frame, [PORT_A])
    assert bridge.datapath.where(NETWORK, FAR) == ("peer", OTHER)
    bridge.datapath.from_fallback(Tunnel(bridge.vni(), "192.0.2.2", "192.0.2.1"), 99, frame, 0)
    assert bridge.take() == []


def test_sweep_deletes_flows_without_packets():
    bridge = Bridge()
    bridge.frame(FAR, A, tag=TAG)
    used, _sent = bridge.frame(A, FAR, port=PORT_A)
    unused, _sent = bridge.frame(B, FAR, port=PORT_B)
    body = [
        SimpleNamespace(cookie=flow.cookie, match=flow.match, packet_count=count)
        for flow, count in ((used, 4), (unused, 0))
    ]
    bridge.datapath.received(parser.OFPFlowStatsReply(DIALECT, body=body, flags=0), 0)
    deleted, made = bridge.take()
    assert (deleted.command, deleted.match["in_port"]) == (ofproto.OFPFC_DELETE_STRICT, PORT_B)
    assert (made.command, made.match["in_port"]) == (ofproto.OFPFC_ADD, PORT_A)


def test_sweep_does_not_bring_back_where_a_workload_was():
    """The bridge has counted the flow before the workload arrived here, and its answer comes after that."""
    bridge = Bridge()
    bridge.frame(A, B, port=PORT_A)
    flow, _sent = bridge.frame(B, A, tag=TAG)
    bridge.frame(B, A, port=PORT_B)
    here = bridge.datapath.where(NETWORK, B)
    bridge.take()
    body = [SimpleNamespace(cookie=flow.cookie, match=flow.match, packet_count=4)]
    bridge.datapath.received(parser.OFPFlowStatsReply(DIALECT, body=body, flags=0), 0)
    assert bridge.datapath.where(NETWORK, B) == here
    assert bridge.take() == []


def test_a_port_and_a_tunnel_have_a_limit_of_flows(monkeypatch):
    monkeypatch.setattr(datapath, "MOST_FLOWS", 3)
    bridge = Bridge()
    groups = [f"01:00:5e:00:00:{number:02x}" for number in range(5)]
    for frames in (
        [bridge.frame(A, target, port=PORT_A) for target in groups],
        [bridge.frame(FAR, target, tag=TAG) for target in groups],
    ):
        assert [kinds(one) for one in frames] == [["FlowMod", "PacketOut"]] * 3 + [["PacketOut"]] * 2
    assert kinds(bridge.frame(B, groups[0], port=PORT_B)) == ["FlowMod", "PacketOut"]
    # Flows that go make room.
    bridge.datapath.received(counters(NETWORK, A, groups[0], more=False), 0)
    (removed,) = bridge.take()
    assert removed.command == ofproto.OFPFC_DELETE_STRICT
    assert kinds(bridge.frame(A, groups[4], port=PORT_A)) == ["FlowMod", "PacketOut"]


def counters(network, source, target, *, more):
    """A part of the answer to a sweep, with one flow from the workload a."""
    match = parser.OFPMatch(in_port=PORT_A, eth_src=source, eth_dst=target)
    body = [SimpleNamespace(cookie=flows.LEARNED_COOKIE | network, match=match, packet_count=0)]
    return parser.OFPFlowStatsReply(DIALECT, flags=ofproto.OFPMPF_REPLY_MORE if more else 0, body=body)


def test_a_network_or_a_port_that_goes_between_two_parts_of_a_sweep():
    bridge = Bridge()
    bridge.datapath.received(counters(NETWORK, A, B, more=True), 0)
    bridge.datapath.set_networks({8: {"b": B}}, {})
    bridge.take()
    bridge.datapath.received(counters(8, B, A, more=False), 0)
    assert bridge.take() == []

    bridge = Bridge()
    bridge.datapath.received(counters(NETWORK, A, B, more=True), 0)
    bridge.ports(**{"heddle-vxlan": VXLAN, "b": PORT_B})
    bridge.take()
    bridge.datapath.received(counters(NETWORK, A, FAR, more=False), 0)
    assert bridge.take() == []


def test_a_sweep_does_not_outlast_its_connection():
    bridge = Bridge()
    bridge.datapath.received(counters(NETWORK, A, FAR, more=True), 0)
    bridge.datapath.gone()
    bridge.datapath.restarted()
    bridge.ports(**{"heddle-vxlan": VXLAN, "a": PORT_A, "b": PORT_B})
    bridge.take()
    bridge.datapath.received(counters(NETWORK, A, B, more=False), 0)
    (removed,) = bridge.take()
    assert (removed.command, removed.match["eth_dst"]) == (ofproto.OFPFC_DELETE_STRICT, B)


@given(st.binary(max_size=80), st.integers(0, (1 << 24) - 1))
def test_any_bytes_are_survived(data, identifier):
    bridge = Bridge()
    bridge.frame("", "", data=data, tunnel_id=identifier)
    bridge.frame("", "", port=PORT_A, data=data)
