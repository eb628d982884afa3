# SPDX-License-Identifier: Apache-2.0
"""Splits a stream of concatenated JSON objects into messages (RFC 7047 section 4: no separators, no lengths).

A reply can be tens of megabytes, so single bytes are not scanned in Python: the decoder runs when the buffer could
be complete, and not again before the buffer has doubled or the sender has paused.
"""

from __future__ import annotations

import json


class FramingError(ValueError):
    """The peer does not send JSON-RPC: its data is not a JSON object."""


class Framer:
    """Collects bytes and returns whole messages. `observe`, if set, is called with each and its text."""

    def __init__(self):
        self.observe = None
        self._buffer = bytearray()
        self._failed_at = 0
        self._decode = json.JSONDecoder().raw_decode

    def feed(self, data, quiet=True):
        """Add bytes; return the messages that are complete now, oldest first.

        `quiet` means that no more data is available at once. While it is false, a large buffer whose decoding failed
        is left alone until it has doubled.
        """
        buffer = self._buffer
        buffer += data
        # Only the end is examined: stripping all of a large buffer would copy it on every read.
        if not buffer[-16:].rstrip().endswith(b"}"):
            return []
        if not quiet and len(buffer) < 2 * self._failed_at:
            return []
        return self._cut()

    def _cut(self):
        text = self._buffer.decode()
        messages, position = [], 0
        try:
            while True:
                position = _skip_space(text, position)
                if position == len(text):
                    break
                if text[position] != "{":
                    raise FramingError(f"expected a JSON object, got {text[position : position + 40]!r}")
                start = position
                message, position = self._decode(text, start)
                messages.append(message)
                if self.observe:
                    self.observe(message, text[start:position])
        except json.JSONDecodeError:
            rest = text[position:].encode()
            self._buffer[:] = rest
            self._failed_at = len(rest)
            return messages
        self._buffer.clear()
        self._failed_at = 0
        return messages


def _skip_space(text, position):
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
