# SPDX-License-Identifier: Apache-2.0
"""One host of a mesh: its knowledge of the others, its links to them, and its datapath. Tasks in `daemon` drive it."""

from __future__ import annotations

import contextlib

from ..common.errors import ProgramError
from ..mesh import heartbeat, sealing, sleeve
from ..mesh.codec import (
    ESP_KEY_BYTES,
    RESERVED_SPIS,
    SLEEVE_KEY_BYTES,
    HeartbeatReceived,
    Hello,
    Keepalive,
    Keys,
    ProbeReceived,
    ProtocolError,
    Records,
    encode,
)
from ..mesh.connection import Connection, surviving
from ..mesh.flows import SWEEP_SECONDS
from ..mesh.forwarding import Tunnel
from ..mesh.gossip import PERIODIC_SECONDS, Gossip
from .datapath import Datapath, tunnel_to
from .link import FAST_DATAPATH, OVERLAYS, SLEEVE, Link

_EXPIRE_SECONDS = 60
# Between two looks at whether packets have passed, since one of a flow that is there does not reach the daemon; and the
# time without any after which a mesh, or a link, is idle.
_USE_SECONDS, _IDLE_SECONDS = 1, 10
# A daemon that is restarted connects again within this time.
_HOLD_SECONDS = 3


class MeshHost:
    """`random` is a random.Random; `send` takes OpenFlow messages, and is called while there is a bridge.

    `transmit(data, address)` sends a datagram of the fallback, `limit(address)` is the size of the largest one that the
    interface takes, `say` takes lines for the log. `esp` is the kernel's ESP for an encrypted mesh, None where it
    cannot be used: then the fallback carries everything.
    """

    def __init__(self, configuration, random, send, transmit, limit, say, now, *, esp=None, rekey_seconds=3600):
        self.configuration = configuration
        self._random = random
        self._uid = random.getrandbits(64)
        self._transmit, self._limit, self._say = transmit, limit, say
        self._esp, self._rekey_seconds = esp, rekey_seconds
        # Addresses of the neighbours that the kernel may have security associations for.
        self._secured = {}
        self.gossip = Gossip(configuration.name, self._uid, random, configuration.node)
        self.datapath = Datapath(
            self.gossip, configuration.address, send, self._heartbeat_received, self._over_fallback, now
        )
        self.links = {}
        self.failures = {}
        # Links whose connection has just ended: their flows stay, since the neighbour's bridge forwards without its
        # daemon. {name: (link, until when)}
        self._held = {}
        self._now = now
        self._due = {
            "gossip": now, "expire": now + _EXPIRE_SECONDS, "sweep": now + SWEEP_SECONDS, "use": now + _USE_SECONDS,
        }  # fmt: skip
        self.configure(configuration)

    def configure(self, configuration):
        """Take another configuration of the same host; its name and address stay."""
        self.configuration = configuration
        self.gossip.expected = configuration.peers.keys()
        for name in self.links.keys() - configuration.neighbours:
            self.ended(self.links[name], "the host is no neighbour any more")
        for link in self.links.values():
            link.path.restart(self._ceiling(link.address), self._now)
        # Of an encrypted mesh nothing is accepted that passed a tunnel without ESP.
        self.datapath.set_peers(peer.address for peer in configuration.peers.values() if FAST_DATAPATH in self.overlays)
        self.datapath.set_networks(configuration.networks, configuration.gateways)

    @property
    def overlays(self):
        """The overlays that this host can use, in order of preference."""
        return OVERLAYS if self._esp is not None or not self.configuration.encrypted else (SLEEVE,)

    # Links

    def connection(self, certified, outbound, now):
        """A connection whose peer has a certificate with this name; ProtocolError for one that is not expected."""
        if certified not in self.configuration.neighbours:
            raise ProtocolError(f"{certified} is no neighbour by the plan")
        hello = Hello(self.gossip.name, self.configuration.node, self._uid, self._random.getrandbits(64), self.overlays)
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
                self.gossip.receive(message.peers, connection.remote.name)
                self.datapath.refresh()
            elif isinstance(message, HeartbeatReceived):
                if message.overlay not in link.selection.beats:
                    raise ProtocolError(f"a heartbeat over {message.overlay}, which this connection does not have")
                link.selection.acknowledged(message.overlay, message.number, now)
                self._evaluate(link)
            elif isinstance(message, Keepalive):
                link.selection.announced()
            elif isinstance(message, ProbeReceived):
                link.path.acknowledged(message.size, now)
            elif isinstance(message, Keys):
                self._take_keys(link, message)

    def ended(self, link, reason):
        """The connection of a link has ended."""
        self.failures[link.name] = reason
        if self.links.get(link.name) is link:
            del self.links[link.name]
            if link.overlay and link.name in self.configuration.neighbours:
                self._held[link.name] = link, self._now + _HOLD_SECONDS
            else:
                self._disconnected(link.name)
        link.channel.close()

    def _disconnected(self, name):
        if name in self._secured:
            self._esp.forget(self._secured.pop(name), self._now)
        self.gossip.disconnected(name)
        self.gossip.collect()
        self._neighbours_changed()

    def _release(self, name):
        """The neighbour of a held link has no working connection yet."""
        del self._held[name]
        if name not in self.links:
            self._disconnected(name)
        elif not self.links[name].overlay:
            self.gossip.connected(name)
            self._neighbours_changed()

    def link_of(self, connection):
        """The link that uses a connection, None when none does."""
        return next((link for link in self.links.values() if link.connection is connection), None)

    def _greeted(self, connection, channel, now):
        name = connection.remote.name
        address = self.configuration.peers[name].address
        link = Link(
            connection, channel, address, self._transmit, self._ceiling(address), now,
            encrypted=self.configuration.encrypted,
        )  # fmt: skip
        other = self.links.get(name)
        if other is not None:
            stays = surviving(other.connection, connection)
            if stays is not connection:
                raise ProtocolError("another connection to this peer stays")
            self.ended(other, "replaced by another connection")
        self.links[name] = link
        self.failures.pop(name, None)
        if name not in self._held:
            self.gossip.connected(name)
            self.datapath.refresh()
        channel.write(encode(Records(self.gossip.everything())))
        if link.is_encrypted:
            self._rekey(link)

    # Keys

    def _rekey(self, link):
        """Make the keys of the direction towards this host, accept them, and send them to the neighbour."""
        link.generation += 1
        link.rekey_due = self._now + self._rekey_seconds
        spi, secret = 0, b""
        if self._uses_esp(link):
            spi, secret = self._random.randrange(RESERVED_SPIS, 1 << 32), self._random.randbytes(ESP_KEY_BYTES)
            self._secured[link.name] = link.address
            with _closing("the kernel does not take a key"):
                self._esp.receive_from(link.address, spi, secret.hex(), self._now)
        key = self._random.randbytes(SLEEVE_KEY_BYTES)
        link.openers.add(link.generation, key)
        link.channel.write(encode(Keys(link.generation, spi, secret.hex(), key.hex())))

    def _take_keys(self, link, keys):
        """Encrypt what is sent to the neighbour with its keys."""
        if not link.is_encrypted:
            raise ProtocolError("the peer encrypts, and the plan of this host has no encryption")
        if self._uses_esp(link):
            if not keys.spi:
                raise ProtocolError(f"the peer has no key for {FAST_DATAPATH}")
            with _closing("the kernel does not take the peer's key"):
                self._esp.send_to(link.address, keys.spi, keys.esp, self._now)
        link.send_with(keys.generation, bytes.fromhex(keys.sleeve))

    def _uses_esp(self, link):
        return FAST_DATAPATH in link.selection.beats

    def _link_at(self, address):
        return next((link for link in self.links.values() if link.address == address), None)

    # Overlays

    def datagram(self, address, data, now):
        """Handle a datagram of the fallback."""
        self._now = now
        link = self._link_at(address)
        if link is None or SLEEVE not in link.selection.beats:
            self.datapath.count_drop("a datagram of no neighbour")
            return
        try:
            message = link.read(data)
        except ProtocolError as error:
            self.datapath.count_drop(str(error))
            return
        if isinstance(message, sleeve.Heartbeat):
            self._heard(link, SLEEVE, message.number)
        elif isinstance(message, sleeve.Probe):
            link.channel.write(encode(ProbeReceived(message.size)))
        elif isinstance(message, sleeve.Frame):
            tunnel = Tunnel(message.vni, address, self.configuration.address)
            self.datapath.from_fallback(tunnel, message.network, message.data, now)

    def _over_fallback(self, tunnel, network, frame, notify):
        link = self._link_at(tunnel.destination)
        return link and link.carry(sleeve.Frame(tunnel.vni, network, frame), notify=notify)

    def _heartbeat_received(self, address, _vni, frame):
        link = self._link_at(address)
        if link is None:
            return
        link.problem = heartbeat.problem(frame, link.connection.uid) or ""
        if not link.problem:
            self._heard(link, FAST_DATAPATH, heartbeat.number_of(frame))

    def _heard(self, link, overlay, number):
        beats = link.selection.beats
        link.selection.heard(overlay, number, self._now)
        self._evaluate(link)

        def acknowledge():
            if self.links.get(link.name) is link:
                link.channel.write(encode(HeartbeatReceived(overlay, number)))

        # That of the fast datapath of this round was sent before. It may wait in a bridge that is slow.
        if overlay == SLEEVE and FAST_DATAPATH in beats and beats[FAST_DATAPATH].heard_number != number:
            self.datapath.after_frames(acknowledge, self._now)
        else:
            acknowledge()

    def _evaluate(self, link):
        """Choose a link's overlay; report a change to the mesh and to the flows."""
        before = link.overlay
        if self.links.get(link.name) is not link or not link.evaluate(self._now, self._ceiling(link.address)):
            return
        node = self.configuration.peers[link.name].node
        self._say(f"{node}: over {link.overlay or 'nothing'}, before over {before or 'nothing'}")
        self._held.pop(link.name, None)
        (self.gossip.established if link.overlay else self.gossip.connected)(link.name)
        self._neighbours_changed()

    def _neighbours_changed(self):
        working = {name: link for name, (link, _until) in self._held.items()}
        working |= {name: link for name, link in self.links.items() if link.overlay}
        self.datapath.set_neighbours(
            {name: link.address for name, link in working.items()},
            frozenset(name for name, link in working.items() if link.overlay == SLEEVE),
        )

    def _ceiling(self, address):
        """The size of the largest datagram of the fallback to a neighbour."""
        sealed = sealing.OVERHEAD if self.configuration.encrypted else 0
        largest = sealed + sleeve.OVERHEAD + heartbeat.ETHERNET_HEADER + self.configuration.mtu
        return min(self._limit(address), largest)

    # Time

    def frames(self, message, now):
        """Handle a message of the bridge."""
        self._now = now
        self.datapath.received(message, now)

    @property
    def is_idle(self):
        """Whether no frame of a workload has passed for a while: then little is due."""
        return self._now - self.datapath.used > _IDLE_SECONDS

    def tick(self, now):
        """Do what is due; call it every 0.05 s or so, of an idle mesh every 0.2 s."""
        self._now = now
        for link in list(self.links.values()):
            try:
                link.channel.write(link.connection.tick(now))
                if link.is_encrypted and now >= link.rekey_due:
                    self._rekey(link)
            except ProtocolError as error:
                self.ended(link, str(error))
                continue
            self._beat(link, now)
        self.datapath.give_up(now)
        for name in [name for name, (_link, until) in self._held.items() if now >= until]:
            self._release(name)
        if self._esp is not None:
            self._esp.tick(now)
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
        if self._is_due("use", _USE_SECONDS, now):
            self.datapath.ask_use()
        self.datapath.refresh()

    def _beat(self, link, now):
        self._evaluate(link)
        used = max(self.datapath.used_to(link.address), link.since)
        idle = self.is_idle or now - used > _IDLE_SECONDS
        interval = heartbeat.IDLE_INTERVAL_SECONDS if idle else heartbeat.INTERVAL_SECONDS
        number = link.selection.rounds.due(now, interval)
        link.probe(now)
        if number is None:
            return
        tunnel = tunnel_to(self.gossip, link.name, self.configuration.address, link.address)
        if FAST_DATAPATH not in link.selection.beats or tunnel is None or not self.datapath.is_ready:
            link.beat(now, number)
            return
        link.selection.beats[FAST_DATAPATH].sent(number, now)
        frame = heartbeat.frame(link.connection.uid, self.configuration.mtu, number)
        self.datapath.heartbeat(tunnel, frame)
        # So that its acknowledgement shows that the other one had every chance.
        self.datapath.after_frames(lambda: link.beat(self._now, number), now)

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


@contextlib.contextmanager
def _closing(what):
    """Let a failure of the kernel end the connection, which is then tried again."""
    try:
        yield
    except ProgramError as error:
        raise ProtocolError(f"{what}: {error}") from error
