# SPDX-License-Identifier: Apache-2.0
"""A connection to a neighbour after its hello, and the overlays beside it."""

from __future__ import annotations

from ..mesh import heartbeat, sealing, sleeve, too_big
from ..mesh.codec import Keepalive, encode
from ..mesh.path_mtu import PathMtu
from ..mesh.selection import Selection

FAST_DATAPATH, SLEEVE = "fastdp", "sleeve"
# In order of preference.
OVERLAYS = (FAST_DATAPATH, SLEEVE)
_ANNOUNCEMENT_SECONDS = 1


class Link:
    """`address` is the neighbour's, `channel` is the control channel to it.

    `transmit(data, address)` sends a datagram of the fallback, `ceiling` is the size of the largest one that is needed
    and that the interface takes. Of an `encrypted` link nothing is sent over the fallback before the neighbour's key is
    there, and nothing is accepted that is not sealed.
    """

    def __init__(self, connection, channel, address, transmit, ceiling, now, *, encrypted=False):
        self.connection, self.channel, self.address = connection, channel, address
        self._transmit = transmit
        self.selection = Selection(connection.overlays, now)
        self.path = PathMtu(ceiling, now)
        self._sender = sleeve.Sender(connection.uid)
        self.receiver = sleeve.Receiver(connection.uid)
        self.openers = sealing.Openers() if encrypted else None
        self._sealer = None
        self._overhead = sealing.OVERHEAD if encrypted else 0
        # The number of the newest key for what is received, and when another one is due.
        self.generation, self.rekey_due = 0, now
        self.since = self.chosen_since = self._announcement_due = now
        self.problem = ""

    @property
    def name(self):
        """The neighbour's name in the mesh."""
        return self.connection.remote.name

    @property
    def is_encrypted(self):
        """Whether all that is sent to the neighbour is encrypted."""
        return self.openers is not None

    @property
    def overlay(self):
        """The overlay that carries what is sent to the neighbour, None while none does."""
        return self.selection.chosen

    def evaluate(self, now, ceiling):
        """Choose the overlay anew; True when it is another one. After a failure the fallback's path is not known."""
        before = self.overlay
        if not self.selection.evaluate(now, self.channel.is_acknowledged):
            return False
        self.chosen_since = now
        if before == FAST_DATAPATH:
            self.path.restart(ceiling, now)
        return True

    def beat(self, now, number):
        """Send the heartbeat with this number over the fallback, and announce each second that it was sent over all."""
        if SLEEVE in self.selection.beats:
            self.selection.beats[SLEEVE].sent(number, now)
            self._send(sleeve.heartbeat(self.connection.uid, number))
        if now >= self._announcement_due:
            self._announcement_due = now + _ANNOUNCEMENT_SECONDS
            self.channel.write(encode(Keepalive()))

    def probe(self, now):
        """Send a probe over the fallback if one is due, and the fallback is known to work at all."""
        if SLEEVE in self.selection.beats and self.selection.beats[SLEEVE].confirmed is not None:
            size = self.path.due(now)
            if size is not None:
                self._send(sleeve.probe(self.connection.uid, size - self._overhead))

    @property
    def fallback_mtu(self):
        """The size of the largest IP packet that the fallback carries in one datagram."""
        return self.path.size - self._overhead - sleeve.OVERHEAD - heartbeat.ETHERNET_HEADER

    def send_with(self, generation, key):
        """Seal what is sent from now on with this key of the neighbour."""
        self._sealer = sealing.Sealer(generation, key)

    def read(self, data):
        """What a datagram carries, as `sleeve.Receiver.read`; the size of a probe is that of the datagram."""
        message = self.receiver.read(self.openers.open(data) if self.openers else data)
        return sleeve.Probe(len(data)) if isinstance(message, sleeve.Probe) else message

    def _send(self, data):
        if self.openers is None:
            self._transmit(data, self.address)
        elif self._sealer is not None:
            self._transmit(self._sealer.seal(data), self.address)

    def carry(self, frame, *, notify):
        """Send a frame over the fallback. With `notify`, return the answer to a sender whose packets are too big."""
        if notify and self.path.finished:
            answer = too_big.answer(frame.data, self.fallback_mtu)
            if answer is not None:
                return answer
        for datagram in self._sender.datagrams(frame, self.path.size - self._overhead):
            self._send(datagram)
        return None
