# SPDX-License-Identifier: Apache-2.0
"""Encryption of the fallback's datagrams: ChaCha20-Poly1305 (RFC 8439) by the library `cryptography`.

A sealed datagram has in clear the number of its key and its own number, which are authenticated too. A key is for one
direction of one connection, so the nonce is the datagram's number. What was received once is not accepted again
(RFC 4303, section 3.4.3: the sliding window of ESP).
"""

from __future__ import annotations

import struct

from .codec import ProtocolError

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
except ImportError:  # On hosts without an encrypted mesh; `is_available` is False then.
    InvalidTag = ChaCha20Poly1305 = None

_MARK = 0x53
_HEADER = struct.Struct("!BIQ")
_NONCE = struct.Struct("!IQ")
_TAG_BYTES = 16
OVERHEAD = _HEADER.size + _TAG_BYTES
WINDOW = 1024


def is_available() -> bool:
    """Whether the library is installed on this host."""
    return ChaCha20Poly1305 is not None


class Sealer:
    """Seals what one end sends with one key. `generation` is the number of the key."""

    def __init__(self, generation, key):
        self._generation, self._cipher = generation, ChaCha20Poly1305(key)
        self._number = 0

    def seal(self, data):
        """The datagram as it is sent."""
        self._number += 1
        header = _HEADER.pack(_MARK, self._generation, self._number)
        return header + self._cipher.encrypt(_NONCE.pack(0, self._number), data, header)


class Opener:
    """Opens what was sealed with one key. The latest `WINDOW` datagrams may come in any order, each once."""

    def __init__(self, key):
        self._cipher = ChaCha20Poly1305(key)
        self._highest = self._received = 0

    def open(self, number, header, sealed):
        """The data; ProtocolError for what is forged, came before, or is too old."""
        behind = self._highest - number
        if behind >= WINDOW or (behind >= 0 and self._received >> behind & 1):
            raise ProtocolError("a sealed datagram came twice, or late")
        try:
            data = self._cipher.decrypt(_NONCE.pack(0, number), sealed, header)
        except InvalidTag as error:
            raise ProtocolError("a datagram is not sealed with the key") from error
        if behind < 0:
            # A jump may be of any length: what is shifted out of the window must not be made first.
            kept = self._received << -behind if -behind < WINDOW else 0
            self._received = (kept | 1) & ((1 << WINDOW) - 1)
            self._highest = number
        else:
            self._received |= 1 << behind
        return data


class Openers:
    """The keys of one direction by their generations. A new key leaves the one before valid, for what is on its way."""

    def __init__(self):
        self._openers = {}

    def add(self, generation, key):
        """Accept datagrams of another key."""
        self._openers = {**dict(list(self._openers.items())[-1:]), generation: Opener(key)}

    def open(self, datagram):
        """The data of a sealed datagram; ProtocolError for any other."""
        if len(datagram) < OVERHEAD:
            raise ProtocolError("a datagram is too short")
        header, sealed = datagram[: _HEADER.size], datagram[_HEADER.size :]
        mark, generation, number = _HEADER.unpack(header)
        if mark != _MARK:
            raise ProtocolError("a datagram is not encrypted")
        if generation not in self._openers:
            raise ProtocolError("a datagram is sealed with a key that is not known")
        return self._openers[generation].open(number, header, sealed)
