# SPDX-License-Identifier: Apache-2.0
"""Two hosts in memory whose bridges are not there: the fallback alone, and what the daemon reports."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.mesh import sleeve
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.codec import HeartbeatReceived, ProtocolError, encode
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.configuration import (
    Configuration,
    Neighbour,
    peer_name,
)
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.host import MeshHost
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.status import describe
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.status_text import is_well, text_of

ADDRESSES = {"node1": "192.0.2.1", "node2": "192.0.2.2"}
MTU = 1400


class Pair:
    """Both hosts with an open connection; datagrams longer than `limit` are lost, of hosts in `cut` all."""

    def __init__(self):
        self.now, self.limit, self.cut = 0.0, 9000, set()
        self.lines = []
        self.hosts = {node: self._host(node) for node in ADDRESSES}
        self.connect()

    def _host(self, node):
        peers = {peer_name(other): Neighbour(other, address) for other, address in ADDRESSES.items() if other != node}
        configuration = Configuration(node, ADDRESSES[node], peers, frozenset(peers), {1: {}}, MTU)

        def transmit(data, address):
            other = next(other for other, one in ADDRESSES.items() if one == address)
            if len(data) <= self.limit and node not in self.cut:
                self.hosts[other].datagram(ADDRESSES[node], data, self.now)

        def send(*_messages):
            """There is no bridge."""

        chance = random.Random(node)
        return MeshHost(configuration, chance, send, transmit, lambda _address: 1472, self.lines.append, 0.0)

    def connect(self):
        """Open the control channel; `self.waiting` are its bytes on their way, by the host that they go to."""
        self.waiting = {node: [] for node in ADDRESSES}
        self.ends = {}
        for node, other in (("node1", "node2"), ("node2", "node1")):
            connection = self.hosts[node].connection(peer_name(other), node == "node1", self.now)
            channel = SimpleNamespace(write=self.waiting[other].append, close=lambda: None)
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
