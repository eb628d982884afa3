# SPDX-License-Identifier: Apache-2.0
"""A mesh in memory: messages pass the codec, may be lost, and arrive in any order; frames pass flows."""

from __future__ import annotations

from collections import Counter, deque

from ansible_collections.heddle.ovn.plugins.module_utils.mesh.codec import Decoder, Records, encode
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.forwarding import Bridge, Key, Tunnel
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.gossip import Gossip

BROADCAST = "ff:ff:ff:ff:ff:ff"


def name_of(number):
    return f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"


def over_the_wire(records):
    """The records as the other end reads them."""
    decoder = Decoder()
    decoder.feed(encode(Records(records)))
    return decoder.message().peers


class Mesh:
    """Peers by name; a link is a pair of names."""

    def __init__(self, count, random, loss=0.0):
        self.random = random
        self.loss = loss
        self.peers = {
            name_of(number): Gossip(name_of(number), random.getrandbits(64), random) for number in range(count)
        }
        self.links = set()
        self._waiting = []

    def connect(self, one, other):
        self.links.add(frozenset((one, other)))
        for end, far in ((one, other), (other, one)):
            self.peers[end].connected(far)
            self.peers[end].established(far)
            self._send(end, [far], self.peers[end].everything())

    def disconnect(self, one, other):
        self.links.discard(frozenset((one, other)))
        for end, far in ((one, other), (other, one)):
            self.peers[end].disconnected(far)

    def restart(self, name):
        """A new process: it has forgotten everything, and connects to the same neighbours."""
        neighbours = self._neighbours(name)
        for other in neighbours:
            self.disconnect(name, other)
        self.peers[name] = Gossip(name, self.random.getrandbits(64), self.random)
        for other in neighbours:
            self.connect(name, other)

    def _neighbours(self, name):
        return sorted(other for link in self.links if name in link for other in link - {name})

    def _send(self, sender, receivers, records):
        if records:
            read = over_the_wire(records)
            self._waiting += [(sender, receiver, read) for receiver in receivers]

    def spread(self):
        """Deliver messages, and those that they cause, until there is none."""
        while True:
            for name, peer in self.peers.items():
                peer.collect()
                self._send(name, self._neighbours(name), peer.changes())
            if not self._waiting:
                return
            self.random.shuffle(self._waiting)
            waiting, self._waiting = self._waiting, []
            for sender, receiver, records in waiting:
                if frozenset((sender, receiver)) in self.links and self.random.random() >= self.loss:
                    self.peers[receiver].receive(records)

    def periodic(self):
        for name, peer in self.peers.items():
            self._send(name, peer.periodic_targets(), peer.everything())
        self.spread()

    def part(self, name):
        """The peers that links lead to, with the peer itself."""
        found, waiting = {name}, [name]
        while waiting:
            current = waiting.pop()
            for link in self.links:
                if current in link:
                    (other,) = link - {current}
                    if other not in found:
                        found.add(other)
                        waiting.append(other)
        return found

    def assert_agreement(self):
        """Within each part: the same records, unique ids, routes to all, broadcasts once to each and never back."""
        for part in {frozenset(self.part(name)) for name in self.peers}:
            views = [self.peers[name].peers for name in sorted(part)]
            assert all(view == views[0] for view in views)
            assert views[0].keys() == part
            ids = [self.peers[name].short_id(name) for name in part]
            assert None not in ids
            assert len(set(ids)) == len(part)
            for name in part:
                peer = self.peers[name]
                assert peer.unicast.keys() == part - {name}
                assert {peer.owner(peers.short_id) for peers in views[0].values()} == part
                self._assert_broadcast(name, part)

    def _assert_broadcast(self, source, part):
        arrivals = Counter([source])
        waiting = [source]
        while waiting:
            hops = self.peers[waiting.pop()].broadcast(source)
            arrivals.update(hops)
            waiting += hops
            assert sum(arrivals.values()) <= len(part), "a loop"
        assert arrivals == Counter(part)


class Hosts:
    """A bridge for each peer of a mesh, with one port; each decision that permits it becomes a flow."""

    def __init__(self, mesh):
        self.mesh = mesh
        self.bridges = {}
        self.flows = {name: {} for name in mesh.peers}
        self.generations = dict.fromkeys(mesh.peers, -1)
        self.misses = Counter()
        self.reasons = []
        for number, (name, peer) in enumerate(mesh.peers.items()):
            bridge = self.bridges[name] = Bridge(peer, self.address(name))
            bridge.set_ports({"port": self.mac(number)})
        self.refresh()

    @staticmethod
    def address(name):
        return f"192.0.2.{int(name[-2:], 16)}"

    @staticmethod
    def mac(number):
        return f"0a:00:00:00:00:{number:02x}"

    def refresh(self):
        """The neighbours of each host, as the control channel has them."""
        for name, bridge in self.bridges.items():
            bridge.set_remotes(
                {other: self.address(other) for link in self.mesh.links if name in link for other in link - {name}}
            )

    def send(self, name, source, destination, now=0.0, port="port"):
        """Send one frame; {host: copies that its port got}."""
        by_address = {self.address(host): host for host in self.bridges}
        delivered = Counter()
        waiting = deque([(name, Key(port, None, source, destination))])
        for _ in range(1000):
            if not waiting:
                return delivered
            host, key = waiting.popleft()
            decision = self._handle(host, key, now)
            delivered.update(host for _port in decision.ports)
            waiting += [
                (
                    by_address[tunnel.destination],
                    Key(None, Tunnel(tunnel.vni, tunnel.source, tunnel.destination), source, destination),
                )
                for tunnel in decision.tunnels
            ]
        raise AssertionError("a loop")

    def _handle(self, host, key, now):
        bridge = self.bridges[host]
        if bridge.generation != self.generations[host]:
            self.flows[host].clear()
            self.generations[host] = bridge.generation
        if key in self.flows[host]:
            return self.flows[host][key]
        self.misses[host] += 1
        decision = bridge.decide(key, now)
        if decision.reason:
            self.reasons.append(decision.reason)
        if bridge.generation != self.generations[host]:
            self.flows[host].clear()
            self.generations[host] = bridge.generation
        if decision.flow and decision.generation == bridge.generation:
            self.flows[host][key] = decision
        return decision
