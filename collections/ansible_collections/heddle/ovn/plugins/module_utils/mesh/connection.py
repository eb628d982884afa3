# SPDX-License-Identifier: Apache-2.0
"""One connection of the control channel, without its socket: bytes and the time in, messages and bytes out.

Both ends begin with the name of the protocol and the versions they know, then send hello (Weave's mesh library,
protocol.go). The name in hello has to be that of the peer's certificate.
"""

from __future__ import annotations

from .codec import MAX_HELLO, MAX_MESSAGE, Decoder, Hello, Keepalive, ProtocolError, encode

PROTOCOL = b"heddle-mesh"
VERSIONS = (1, 1)
HANDSHAKE_SECONDS = 10
KEEPALIVE_SECONDS = 30
SILENCE_SECONDS = 60


class Connection:
    """`hello` is this end's; `certified` the peer's name by its certificate; `outbound` if this end connected.

    `remote` is the peer's hello, None until it arrived. `now` is any clock that does not jump.
    """

    def __init__(self, hello, certified, outbound, now):
        self._hello = hello
        self._certified = certified
        self.outbound = outbound
        self._decoder = Decoder(MAX_HELLO)
        self._versions = None
        self._keepalive_due = now + KEEPALIVE_SECONDS
        self._silent_until = now + HANDSHAKE_SECONDS
        self.remote = None

    def opening(self):
        """The bytes to send first."""
        return PROTOCOL + bytes(VERSIONS) + encode(self._hello)

    def receive(self, data, now):
        """Yield the messages that these bytes complete, hello among them; ProtocolError closes the connection."""
        self._decoder.feed(data)
        if self._versions is None and not self._read_versions():
            return
        while (message := self._decoder.message()) is not None:
            if self.remote is None:
                self._greeted(message)
            elif isinstance(message, Hello):
                raise ProtocolError("hello came twice")
            self._silent_until = now + SILENCE_SECONDS
            yield message

    def tick(self, now):
        """The bytes to send by now; ProtocolError when the peer was silent for too long."""
        if now >= self._silent_until:
            raise ProtocolError("no hello in time" if self.remote is None else f"nothing for {SILENCE_SECONDS} s")
        if self.remote is None or now < self._keepalive_due:
            return b""
        self._keepalive_due = now + KEEPALIVE_SECONDS
        return encode(Keepalive())

    @property
    def uid(self):
        """Identity of the connection, the same at both ends: the heartbeats on its overlays have it."""
        return self._hello.connection ^ self.remote.connection

    @property
    def overlays(self):
        """The overlays that both ends have, in the order of the end that connected."""
        first, second = (self._hello, self.remote) if self.outbound else (self.remote, self._hello)
        return tuple(overlay for overlay in first.overlays if overlay in second.overlays)

    def _read_versions(self):
        opening = self._decoder.take(len(PROTOCOL) + 2)
        if opening is None:
            return False
        if not opening.startswith(PROTOCOL):
            raise ProtocolError("the peer does not speak the protocol of the mesh")
        lowest, highest = opening[-2:]
        if lowest > VERSIONS[1] or highest < VERSIONS[0]:
            raise ProtocolError(f"the peer knows versions {lowest} to {highest}; here {VERSIONS[0]} to {VERSIONS[1]}")
        self._versions = (lowest, highest)
        return True

    def _greeted(self, message):
        if not isinstance(message, Hello):
            raise ProtocolError("the first message is not hello")
        if message.name != self._certified:
            raise ProtocolError(f"hello has the name {message.name}, the certificate {self._certified}")
        if message.name == self._hello.name:
            raise ProtocolError("the peer has this peer's own name")
        self.remote = message
        if not self.overlays:
            raise ProtocolError("no common overlay")
        self._decoder.limit = MAX_MESSAGE


def surviving(first, second):
    """Which of two connections to one peer stays: that of the lower uid; None when both have to be closed."""
    if first.uid == second.uid:
        return None
    return first if first.uid < second.uid else second
