# SPDX-License-Identifier: Apache-2.0
"""One host of a mesh: its knowledge of the others, its links to them, and its datapath. Tasks in `daemon` drive it."""

from __future__ import annotations

from ..mesh import heartbeat
from ..mesh.codec import HeartbeatReceived, Hello, ProtocolError, Records, encode
from ..mesh.connection import Connection, surviving
from ..mesh.flows import SWEEP_SECONDS
from ..mesh.gossip import PERIODIC_SECONDS, Gossip
from .datapath import Datapath, tunnel_to

FAST_DATAPATH = "fastdp"
_EXPIRE_SECONDS = 60


class Link:
    """A connection to a neighbour after its hello, and the heartbeats of the fast datapath beside it."""

    def __init__(self, connection, channel, now):
        self.connection, self.channel = connection, channel
        self.heartbeats = heartbeat.Heartbeats(now)
        self.since = now
        self.problem = ""

    @property
    def name(self):
        """The neighbour's name in the mesh."""
        return self.connection.remote.name

    @property
    def works(self):
        """Whether the fast datapath carries frames in both directions."""
        return self.heartbeats.established and self.heartbeats.healthy


class MeshHost:
    """`random` is a random.Random; `send` takes OpenFlow messages, and is called while there is a bridge."""

    def __init__(self, configuration, random, send, now):
        self.configuration = configuration
        self._random = random
        self._uid = random.getrandbits(64)
        self.gossip = Gossip(configuration.name, self._uid, random, configuration.node)
        self.datapath = Datapath(self.gossip, configuration.address, send, self._heartbeat_received)
        self.links = {}
        self.failures = {}
        self._now = now
        self._due = {"gossip": now, "expire": now + _EXPIRE_SECONDS, "sweep": now + SWEEP_SECONDS}
        self.configure(configuration)

    def configure(self, configuration):
        """Take another configuration of the same host; its name and address stay."""
        self.configuration = configuration
        for name in self.links.keys() - configuration.neighbours:
            self.ended(self.links[name], "the host is no neighbour any more")
        self.datapath.set_peers(peer.address for peer in configuration.peers.values())
        self.datapath.set_networks(configuration.networks)

    # Links

    def connection(self, certified, outbound, now):
        """A connection whose peer has a certificate with this name; ProtocolError for one that is not expected."""
        if certified not in self.configuration.neighbours:
            raise ProtocolError(f"{certified} is no neighbour by the plan")
        hello = Hello(
            self.gossip.name, self.configuration.node, self._uid, self._random.getrandbits(64), (FAST_DATAPATH,)
        )
        return Connection(hello, certified, outbound, now)

    def received(self, connection, channel, data, now):
        """Handle bytes of a connection; ProtocolError says why it has to be closed. `channel` sends and closes."""
        self._now = now
        for message in connection.receive(data, now):
            if isinstance(message, Hello):
                self._greeted(connection, channel, now)
            link = self.links.get(connection.remote.name)
            if link is None or link.connection is not connection:
                raise ProtocolError("another connection to this peer stays")
            if isinstance(message, Records):
                self.gossip.receive(message.peers)
            elif isinstance(message, HeartbeatReceived):
                link.heartbeats.acknowledged(now)
                self._judge(link)
        self.datapath.refresh()

    def ended(self, link, reason):
        """The connection of a link has ended."""
        self.failures[link.name] = reason
        if self.links.get(link.name) is link:
            del self.links[link.name]
            self.gossip.disconnected(link.name)
            self.gossip.collect()
            self._neighbours_changed()
        link.channel.close()

    def link_of(self, connection):
        """The link that uses a connection, None when none does."""
        return next((link for link in self.links.values() if link.connection is connection), None)

    def _greeted(self, connection, channel, now):
        name = connection.remote.name
        link = Link(connection, channel, now)
        other = self.links.get(name)
        if other is not None:
            stays = surviving(other.connection, connection)
            if stays is not connection:
                raise ProtocolError("another connection to this peer stays")
            self.ended(other, "replaced by another connection")
        self.links[name] = link
        self.failures.pop(name, None)
        self.gossip.connected(name)
        link.channel.write(encode(Records(self.gossip.everything())))

    # Heartbeats

    def _heartbeat_received(self, address, _vni, frame):
        for link in self.links.values():
            if self.configuration.peers[link.name].address == address:
                link.problem = heartbeat.problem(frame, link.connection.uid) or ""
                if not link.problem:
                    if link.heartbeats.received(self._now):
                        link.channel.write(encode(HeartbeatReceived(FAST_DATAPATH)))
                    self._judge(link)

    def _judge(self, link):
        """Report a change of a link's fast datapath to the mesh and to the flows."""
        established = self.gossip.peers[self.gossip.name].links.get(link.name)
        if established is not None and established != link.works:
            (self.gossip.established if link.works else self.gossip.connected)(link.name)
        self._neighbours_changed()

    def _neighbours_changed(self):
        peers = self.configuration.peers
        self.datapath.set_neighbours(
            {name: peers[name].address for name, link in self.links.items() if link.works and name in peers}
        )

    # Time

    def frames(self, message, now):
        """Handle a message of the bridge."""
        self._now = now
        self.datapath.received(message, now)

    def tick(self, now):
        """Do what is due; call it every 0.1 s or so."""
        self._now = now
        for link in list(self.links.values()):
            try:
                link.channel.write(link.connection.tick(now))
            except ProtocolError as error:
                self.ended(link, str(error))
                continue
            self._beat(link, now)
        records = self.gossip.changes()
        if records:
            self._tell(self.links, records)
            self.gossip.collect()
        if self._is_due("gossip", PERIODIC_SECONDS, now):
            self._tell(self.gossip.periodic_targets(), self.gossip.everything())
        if self._is_due("expire", _EXPIRE_SECONDS, now):
            self.datapath.expire(now)
        if self._is_due("sweep", SWEEP_SECONDS, now):
            self.datapath.ask_counters()
        self.datapath.refresh()

    def _beat(self, link, now):
        due = link.heartbeats.due(now)
        self._judge(link)
        address = self.configuration.peers[link.name].address
        tunnel = tunnel_to(self.gossip, link.name, self.configuration.address, address)
        if due and tunnel is not None:
            self.datapath.heartbeat(tunnel, heartbeat.frame(link.connection.uid, self.configuration.mtu))

    def _tell(self, names, records):
        data = encode(Records(tuple(records)))
        for name in names:
            if name in self.links:
                self.links[name].channel.write(data)

    def _is_due(self, what, interval, now):
        if now < self._due[what]:
            return False
        self._due[what] = now + interval
        return True
