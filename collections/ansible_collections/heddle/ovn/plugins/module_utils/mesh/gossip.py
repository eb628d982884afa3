# SPDX-License-Identifier: Apache-2.0
"""What one peer knows about the mesh, and what it passes on (Weave's mesh library, peers.go and gossip.go).

The caller keeps the connections and the timers: `changes` goes to all neighbours a moment after a change, `everything`
to each new neighbour and every 30 seconds to `periodic_targets`, which repairs whatever was lost; `collect` runs after
a change. `generation` rises with every change after which flows are wrong: routes, and owners of short ids.
"""

from __future__ import annotations

import math
from dataclasses import replace

from .peers import Peer
from .short_ids import ShortIds
from .topology import Topology, reachable

PERIODIC_SECONDS = 30
# A version counts the changes of a peer's links, so no true one comes near to these. They are for a peer that gossips
# about others what is not so: it must not use up the versions of another peer, which would then be refused everywhere
# (the codec takes versions below 2^63). What a peer says of itself has more room than what others say of it.
_HIGHEST_RELAYED, _HIGHEST_OWN = 1 << 62, 3 << 61
# Links of a record to hosts that this one's plan does not have yet.
_MORE_LINKS = 256


class Gossip:
    """The records of all known peers by name, this peer's included. `random` is a random.Random."""

    def __init__(self, name, uid, random, nickname=""):
        self.name = name
        self._random = random
        self._short_ids = ShortIds()
        self._changed = {name}
        self._topology = None
        self._unicast = None
        self._broadcast = {}
        self.generation = 0
        short_id = self._short_ids.choose(random)
        self._short_ids.add(name, short_id)
        self.peers = {name: Peer(name, nickname, uid, 0, short_id, {})}
        # The peers that there may be; None for any.
        self.expected = None

    # This peer's connections

    def connected(self, name):
        """A connection to `name` exists, and carries no packets yet."""
        self._set_links({**self._own.links, name: False})

    def established(self, name):
        """The connection to `name` carries packets."""
        self._set_links({**self._own.links, name: True})

    def disconnected(self, name):
        """The connection to `name` has ended."""
        self._set_links({other: state for other, state in self._own.links.items() if other != name})

    # Exchange with neighbours

    def receive(self, records, sender=None):
        """Merge the records of a message of a neighbour. Those that were new here are part of the next `changes`.

        Records that cannot be true are ignored, also those of peers that are not expected: with the records that it
        has, this peer must be able to make a message, and its own version must be one that others take. A record that
        is expected only later comes again (`periodic_targets`).
        """
        for record in records:
            known = self.peers.get(record.name)
            if record.name == self.name:
                self._supersede(record)
            elif (known is None or record.newer_than(known)) and self._is_credible(record, sender):
                self._store(record)
        self._keep_own_short_id()

    def changes(self):
        """The records that changed since the last call."""
        changed = tuple(self.peers[name] for name in sorted(self._changed) if name in self.peers)
        self._changed.clear()
        return changed

    def everything(self):
        """All records."""
        return tuple(self.peers.values())

    def periodic_targets(self):
        """At most 2 log2(peers) neighbours, chosen at random, weighted by how many peers are behind each."""
        neighbours = self.topology.neighbours(self.name)
        count = min(len(neighbours), max(1, int(2 * math.log2(len(self.peers)))))
        hops = list(self.unicast.values())
        # A weighted choice without repetition: the largest of u^(1/weight) (Efraimidis and Spirakis, 2006).
        keys = {name: self._random.random() ** (1 / max(1, hops.count(name))) for name in neighbours}
        return sorted(neighbours, key=keys.__getitem__, reverse=True)[:count]

    def collect(self):
        """Remove the peers that no chain of links leads to; an id that this frees may be this peer's again."""
        for name in self.peers.keys() - reachable(self.peers, self.name):
            gone = self.peers.pop(name)
            self._changed.discard(name)
            self._release(gone)
            self._routes_changed()
        self._keep_own_short_id()

    # What the datapath asks

    @property
    def topology(self):
        """The graph of all records."""
        if self._topology is None:
            self._topology = Topology(self.peers)
        return self._topology

    @property
    def unicast(self):
        """{destination: next hop}."""
        if self._unicast is None:
            self._unicast = self.topology.unicast(self.name)
        return self._unicast

    def broadcast(self, source):
        """The neighbours that a broadcast of the peer `source` is forwarded to."""
        if source not in self._broadcast:
            self._broadcast[source] = self.topology.broadcast(source, self.name)
        return self._broadcast[source]

    def owner(self, short_id):
        """The peer that a short id belongs to, or None."""
        return self._short_ids.owner(short_id)

    def short_id(self, name):
        """The short id of a peer, or None when it has none that others would find it by."""
        peer = self.peers.get(name)
        if peer is None or peer.short_id is None or self.owner(peer.short_id) != name:
            return None
        return peer.short_id

    # Records

    @property
    def _own(self):
        return self.peers[self.name]

    def _set_links(self, links):
        if links != self._own.links:
            self._store(replace(self._own, version=self._own.version + 1, links=links))

    def _supersede(self, record):
        """A record of this peer from before its restart: the present one gets a higher version."""
        own = self._own
        if record.uid != own.uid and own.version <= record.version < _HIGHEST_OWN:
            self._store(replace(own, version=record.version + 1))

    def _is_credible(self, record, sender):
        if record.name != sender and record.version > _HIGHEST_RELAYED:
            return False
        if self.expected is None:
            return True
        return record.name in self.expected and len(record.links) <= len(self.expected) + _MORE_LINKS

    def _store(self, record):
        known = self.peers.get(record.name)
        self.peers[record.name] = record
        self._changed.add(record.name)
        if known is None or known.links != record.links:
            self._routes_changed()
        if known is None or known.short_id != record.short_id:
            if known is not None:
                self._release(known)
            if record.short_id is not None and self._short_ids.add(record.name, record.short_id):
                self.generation += 1

    def _release(self, record):
        if record.short_id is not None and self._short_ids.remove(record.name, record.short_id):
            self.generation += 1

    def _routes_changed(self):
        self._topology = None
        self._unicast = None
        self._broadcast = {}
        self.generation += 1

    def _keep_own_short_id(self):
        """Choose again when a peer of a lower name has this peer's id. Without a free one this waits for `collect`."""
        own = self._own
        if self.owner(own.short_id) != self.name:
            short_id = self._short_ids.choose(self._random)
            if short_id is not None:
                self._store(replace(own, version=own.version + 1, short_id=short_id))
