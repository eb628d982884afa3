# SPDX-License-Identifier: Apache-2.0
"""Which overlay carries the frames of a connection (weave, docs/fastdp.md, "Overlay Method Selection").

All overlays that both ends have run in parallel, all the time: in each round a heartbeat with the same number is sent
over every one of them. Each end chooses for what it sends, since a path may fail in one direction only; frames are
received over any.
"""

from __future__ import annotations

from .heartbeat import NUMBERS, Heartbeats

# Heartbeats in a row that an overlay loses and another one does not.
LOST_HEARTBEATS = 3
SILENT_SECONDS = 3


class Selection:
    """`overlays` in order of preference. `chosen` is the one to send over, None while the connection carries nothing.

    An overlay has failed when the peer has acknowledged a heartbeat of another one that was sent `LOST_HEARTBEATS`
    rounds after the last that it acknowledged of this one. So a peer that is busy, or a control channel that stalls,
    changes nothing: while acknowledgements are missing of all overlays the last choice stays. When for `SILENT_SECONDS`
    no heartbeat of the peer has arrived over any, frames have to take another route.
    """

    def __init__(self, overlays, now):
        self.beats = {name: Heartbeats() for name in overlays}
        self.chosen = None
        self._ticked = now
        self._round, self._round_at = 0, None

    def due(self, now, interval):
        """The number of the heartbeats that are due, `interval` seconds after the last ones; None for none."""
        if self._round_at is not None and now < self._round_at + interval:
            return None
        self._round, self._round_at = (self._round + 1) % NUMBERS, now
        return self._round

    def evaluate(self, now):
        """Choose; True when the choice is another one now."""
        before = self.chosen
        sending = [name for name in self.beats if self.sends(name)]
        self.chosen = sending[0] if sending and self._receives(now) else None
        return self.chosen != before

    def tick(self, now, longest):
        """Call it often. A pause of this process longer than `longest` does not count as silence of the peer."""
        pause = now - self._ticked
        self._ticked = now
        if pause > longest:
            for beats in self.beats.values():
                if beats.heard is not None:
                    beats.heard += pause

    def sends(self, name):
        """Whether the peer receives what is sent over an overlay, as far as it is known."""
        latest = [beats.latest for beats in self.beats.values() if beats.latest is not None]
        own = self.beats[name].latest
        return own is not None and max(latest) - own < LOST_HEARTBEATS

    def _receives(self, now):
        return any(beats.heard is not None and now - beats.heard < SILENT_SECONDS for beats in self.beats.values())
