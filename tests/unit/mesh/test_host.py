# SPDX-License-Identifier: Apache-2.0
"""Two hosts in memory whose bridges are not there: the fallback alone, and what the daemon reports."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import MESH_TUNNELS
from ansible_collections.heddle.ovn.plugins.module_utils.mesh import sleeve
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.codec import (
    HeartbeatReceived,
    Keys,
    ProtocolError,
    Records,
    encode,
)
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.peers import Peer
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.configuration import (
    Configuration,
    Neighbour,
    peer_name,
)
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.host import MeshHost
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.status import describe
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.status_text import is_well, text_of
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.switch import DIALECT, ofproto, parser

ADDRESSES = {"node1": "192.0.2.1", "node2": "192.0.2.2"}
MTU = 1400


class Kernel:
    """Security associations as the daemon asks for them: keys by the other host's address."""

    def __init__(self):
        self.inbound, self.outbound = {}, {}

    def receive_from(self, address, spi, key, _now):
        self.inbound[address] = spi, key

    def send_to(self, address, spi, key, _now):
        self.outbound[address] = spi, key

    def forget(self, address, _now):
        self.inbound.pop(address, None)
        self.outbound.pop(address, None)

    def tick(self, now):
        """Nothing is due."""


class Pair:
    """Both hosts with an open connection; datagrams longer than `limit` are lost, of hosts in `cut` all.

    `encrypted` are those whose plan encrypts, `esp` those whose kernel has ESP. `wire` are all datagrams, `asked` the
    requests for counters with the name of the host. `acknowledging` is whether the kernels acknowledge what they get.
    """

    def __init__(self, encrypted=(), esp=(), rekey_seconds=3600):
        self.now, self.limit, self.cut, self.acknowledging = 0.0, 9000, set(), True
        self.lines, self.wire, self.asked = [], [], []
        self.encrypted, self.rekey_seconds = encrypted, rekey_seconds
        self.esp = {node: Kernel() for node in esp}
        self.hosts = {node: self._host(node) for node in ADDRESSES}
        self.connect()

    def _host(self, node):
        peers = {peer_name(other): Neighbour(other, address) for other, address in ADDRESSES.items() if other != node}
        configuration = Configuration(
            node, ADDRESSES[node], peers, frozenset(peers), {1: {}}, MTU, node in self.encrypted
        )

        def transmit(data, address):
            self.wire.append(data)
            other = next(other for other, one in ADDRESSES.items() if one == address)
            if len(data) <= self.limit and node not in self.cut:
                self.hosts[other].datagram(ADDRESSES[node], data, self.now)

        def send(*messages):
            """There is no bridge."""
            self.asked += [(node, one) for one in messages if isinstance(one, parser.OFPAggregateStatsRequest)]

        chance = random.Random(node)
        return MeshHost(
            configuration, chance, send, transmit, lambda _address: 1472, self.lines.append, 0.0,
            esp=self.esp.get(node), rekey_seconds=self.rekey_seconds,
        )  # fmt: skip

    def connect(self):
        """Open the control channel; `self.waiting` are its bytes on their way, by the host that they go to."""
        self.waiting = {node: [] for node in ADDRESSES}
        self.ends = {}
        for node, other in (("node1", "node2"), ("node2", "node1")):
            connection = self.hosts[node].connection(peer_name(other), node == "node1", self.now)
            channel = SimpleNamespace(
                write=self.waiting[other].append, close=lambda: None, is_acknowledged=lambda: self.acknowledging
            )
            self.ends[node] = connection, channel
            channel.write(connection.opening())
        self._deliver()

    def _deliver(self):
        while any(self.waiting.values()):
            for node, pieces in self.waiting.items():
                data = b"".join(pieces)
                pieces.clear()
                if data:
                    self.hosts[node].received(*self.ends[node], data, self.now)

    def run(self, seconds, *nodes):
        end = self.now + seconds
        while self.now < end:
            self.now += 0.1
            for node in nodes or ADDRESSES:
                self.hosts[node].tick(self.now)
                self._deliver()

    def link(self, node="node1"):
        (link,) = self.hosts[node].links.values()
        return link

    def status(self):
        return describe(self.hosts["node1"], self.now)


def test_fallback_alone_carries_frames_and_says_why():
    pair = Pair()
    pair.run(1)
    (one,) = pair.status()["connections"]
    assert (one["state"], one["overlay"], one["why"]) == ("established", "sleeve", "fastdp: no bridge on this host")
    assert one["fallback"] == {"mtu": MTU, "searching": False}
    assert pair.hosts["node1"].gossip.unicast == {peer_name("node2"): peer_name("node2")}
    assert pair.lines[0] == "node2: over sleeve, before over nothing"
    state = {**pair.status(), "bridge": True}
    assert is_well(state)
    assert "node2 sleeve mtu=1400 rtt=0.0ms flows=0 (fastdp: no bridge on this host)" in text_of(state)


def test_links_that_no_frame_goes_over_have_fewer_heartbeats(monkeypatch):
    pair = Pair()
    pair.run(20)
    first = pair.hosts["node1"]
    assert first.is_idle

    def sent_in(seconds):
        before = len(pair.wire)
        pair.run(seconds)
        return len(pair.wire) - before

    idle = sent_in(6)
    message = sleeve.Frame(1, 1, bytes(60))
    for datagram in sleeve.Sender(pair.link().connection.uid).datagrams(message, 1400):
        first.datagram(ADDRESSES["node2"], datagram, pair.now)
    # A frame of the neighbour: this host is in use, its link to there is not.
    assert not first.is_idle
    assert sent_in(6) <= idle + 2
    monkeypatch.setattr(first.datapath, "used_to", lambda address: pair.now if address == ADDRESSES["node2"] else 0)
    first.datapath.used = pair.now
    assert sent_in(6) > 1.5 * idle
    assert pair.status()["connections"][0]["overlay"] == "sleeve"


def test_idle_mesh_looks_often_whether_its_flows_carry_packets():
    """A packet of a flow that is there does not reach the daemon: only its counters show that the mesh is in use."""
    pair = Pair()
    first = pair.hosts["node1"]

    def asked_in(seconds):
        pair.asked.clear()
        pair.run(seconds)
        return len([node for node, _request in pair.asked if node == "node1"])

    assert 7 <= asked_in(9) <= 10
    pair.run(3)
    assert first.is_idle
    assert 3 <= asked_in(4) <= 5
    body = parser.OFPAggregateStats(packet_count=1, byte_count=0, flow_count=1)
    reply = parser.OFPAggregateStatsReply(DIALECT, body=body)
    reply.set_xid(pair.asked[-1][1].xid)
    first.frames(reply, pair.now)
    assert not first.is_idle


def test_path_that_becomes_smaller_is_measured_again():
    pair = Pair()
    pair.run(1)
    pair.limit = 1000
    pair.run(60)
    expected = 1000 - sleeve.OVERHEAD - 14
    assert pair.status()["connections"][0]["fallback"] == {"mtu": expected, "searching": False}
    assert f"path={expected} " in text_of(pair.status())


def test_host_that_is_silent_is_reached_over_others():
    pair = Pair()
    pair.run(1)
    pair.cut = set(ADDRESSES)
    pair.run(4)
    assert pair.status()["connections"][0]["state"] == "pending"
    assert pair.hosts["node1"].gossip.unicast == {}
    pair.cut = set()
    pair.run(1)
    assert pair.status()["connections"][0]["state"] == "established"


def test_host_whose_daemon_stands_still_is_not_left():
    """It answers nothing over the control channel by itself, and its kernel acknowledges what it receives there."""
    pair = Pair()
    pair.run(1)
    pair.run(20, "node1")
    assert pair.status()["connections"][0]["state"] == "established"
    pair.acknowledging = False
    pair.run(1, "node1")
    assert pair.status()["connections"][0]["state"] == "pending"


def test_what_arrived_during_a_pause_of_the_own_process_is_handled_before_its_timers():
    pair = Pair()
    pair.run(1)
    pair.now += 10
    pair.hosts["node1"].received(*pair.ends["node1"], encode(HeartbeatReceived("sleeve", 1)), pair.now)
    assert pair.status()["connections"][0]["state"] == "established"
    assert len(pair.lines) == 2


def test_connection_that_ends_keeps_its_flows_until_the_next_one_or_for_a_moment():
    pair = Pair()
    pair.run(1)
    first, second = pair.hosts.values()
    before = first.gossip.generation
    for host in (first, second):
        host.ended(next(iter(host.links.values())), "closed by the peer")
    assert first.gossip.generation == before
    pair.connect()
    pair.run(5)
    assert first.gossip.generation == before
    assert pair.link().overlay == "sleeve"

    first.ended(pair.link(), "closed by the peer")
    pair.run(2, "node1")
    assert first.gossip.generation == before
    pair.run(2, "node1")
    assert first.gossip.unicast == {}


def test_acknowledgement_of_an_overlay_that_the_connection_does_not_have():
    pair = Pair()
    with pytest.raises(ProtocolError, match="over other, which"):
        pair.hosts["node1"].received(*pair.ends["node1"], encode(HeartbeatReceived("other", 1)), pair.now)


def test_records_of_hosts_that_the_plan_does_not_have_are_not_kept():
    pair = Pair()
    pair.run(1)
    host, (connection, channel) = pair.hosts["node1"], pair.ends["node1"]
    for name, kept in (("0a:00:00:00:00:09", False), (peer_name("node2"), True)):
        record = Peer(name, "", 1, 99, 5, {host.gossip.name: True})
        host.received(connection, channel, encode(Records((record,))), pair.now)
        assert (host.gossip.peers.get(name) == record) is kept


def test_fallback_of_an_encrypted_mesh_sends_nothing_in_clear():
    pair = Pair(encrypted=ADDRESSES)
    pair.run(1)
    (one,) = pair.status()["connections"]
    assert (one["state"], one["overlay"], one["encrypted"]) == ("established", "sleeve", True)
    assert one["fallback"] == {"mtu": MTU, "searching": False}
    state = describe(pair.hosts["node1"], pair.now, "no ESP in the kernel")
    assert "node2 encrypted sleeve mtu=1400" in text_of(state)
    assert state["connections"][0]["why"] == "fastdp: no ESP in the kernel"
    clear = sleeve.heartbeat(pair.link().connection.uid, 1)[1:9]
    assert pair.wire
    assert not [data for data in pair.wire if clear in data]


def test_what_is_not_sealed_is_dropped():
    pair = Pair(encrypted=ADDRESSES)
    pair.run(1)
    before = pair.link().selection.beats["sleeve"].heard
    pair.hosts["node1"].datagram(ADDRESSES["node2"], sleeve.heartbeat(pair.link().connection.uid, 99), pair.now + 1)
    assert pair.link().selection.beats["sleeve"].heard == before
    assert sum(pair.status()["dropped"].values()) == 1


def test_both_directions_have_keys_of_their_own_that_are_replaced():
    pair = Pair(encrypted=ADDRESSES, esp=ADDRESSES, rekey_seconds=10)
    one, other = pair.esp["node1"], pair.esp["node2"]
    pair.run(1)
    first = one.outbound[ADDRESSES["node2"]]
    assert first == other.inbound[ADDRESSES["node1"]] != one.inbound[ADDRESSES["node2"]]
    pair.run(10)
    second = one.outbound[ADDRESSES["node2"]]
    assert second == other.inbound[ADDRESSES["node1"]] != first
    assert pair.status()["connections"][0]["state"] == "established"
    assert pair.status()["dropped"] == {}
    pair.hosts["node1"].configure(replace(pair.hosts["node1"].configuration, neighbours=frozenset()))
    assert (one.inbound, one.outbound) == ({}, {})


def test_without_esp_at_one_end_both_use_the_fallback():
    pair = Pair(encrypted=ADDRESSES, esp=["node1"])
    pair.run(1)
    assert pair.status()["connections"][0]["why"] == "the peer has no fastdp"
    assert pair.esp["node1"].outbound == {}


def test_host_that_does_not_encrypt_yet_is_named():
    pair = Pair()
    pair.hosts["node1"].configure(replace(pair.hosts["node1"].configuration, encrypted=True))
    with pytest.raises(ProtocolError, match="the plan of this host has no encryption"):
        pair.connect()


def test_keys_are_not_shown():
    assert "77" not in repr(Keys(1, 300, "77" * 36, "77" * 32))


class BridgedPair(Pair):
    """Both hosts have a bridge, which takes `delay` seconds for each message; `lost`: nothing passes the tunnels."""

    def __init__(self):
        self.delay, self.lost, self.queued = 0.0, False, []
        super().__init__()
        for host in self.hosts.values():
            body = [SimpleNamespace(name=MESH_TUNNELS.encode(), port_no=1)]
            host.frames(parser.OFPPortDescStatsReply(DIALECT, body=body, flags=0), self.now)

    def _host(self, node):
        host = super()._host(node)
        own = ADDRESSES[node]

        def send(*messages):
            for one in messages:
                if not isinstance(one, parser.OFPPacketOut):
                    continue
                fields = {one.key: one.value for one in one.actions if isinstance(one, parser.OFPActionSetField)}
                if fields:
                    match = {"in_port": 1, "tun_ipv4_src": own, **fields}
                    target = next(other for other, address in ADDRESSES.items() if address == fields["tun_ipv4_dst"])
                else:
                    match, target = {"in_port": ofproto.OFPP_CONTROLLER}, node
                # Sent by one bridge and received by the other one, or handed back.
                self.queued.append((self.now + self.delay * (2 if fields else 1), target, match, one.data))

        host.datapath._send = send
        return host

    def _deliver(self):
        super()._deliver()
        due = [one for one in self.queued if one[0] <= self.now]
        self.queued = [one for one in self.queued if one[0] > self.now]
        for _when, target, match, data in due:
            if match["in_port"] == ofproto.OFPP_CONTROLLER or not self.lost:
                message = parser.OFPPacketIn(DIALECT, match=parser.OFPMatch(**match), data=data)
                self.hosts[target].frames(message, self.now)
        super()._deliver()


@pytest.mark.parametrize("delay", [0.0, 0.3, 0.9])
def test_a_bridge_that_is_slow_is_no_failure_of_the_fast_datapath(delay):
    pair = BridgedPair()
    pair.run(3)
    assert pair.link().overlay == "fastdp"
    pair.delay = delay
    before = len(pair.lines)
    pair.run(30)
    assert pair.lines[before:] == []
    pair.lost = True
    # Late acknowledgements slow heartbeats down: to 2 s between those of a pair of rounds.
    pair.run(10)
    assert pair.link().overlay == "sleeve"
    pair.lost, pair.delay = False, 0.0
    pair.run(2)
    assert pair.link().overlay == "fastdp"


def test_a_bridge_that_does_nothing_is_left_for_the_fallback():
    pair = BridgedPair()
    pair.run(3)
    pair.delay = 1000
    pair.run(6)
    assert pair.link().overlay == "sleeve"
