# SPDX-License-Identifier: Apache-2.0
"""Which overlay carries the frames of a connection (weave, docs/fastdp.md, "Overlay Method Selection").

All overlays that both ends have run in parallel, all the time. Each end chooses for what it sends, since a path may
fail in one direction only; frames are received over any.
"""

from __future__ import annotations

from .heartbeat import Heartbeats

LOST_SECONDS = 0.45
SILENT_SECONDS = 3


class Selection:
    """`overlays` in order of preference. `chosen` is the one to send over, None while the connection carries nothing.

    An overlay has failed when the peer has acknowledged a heartbeat of another one that was sent `LOST_SECONDS` after
    the last that it acknowledged of this one. So a peer that is busy, or a control channel that stalls, changes
    nothing: while acknowledgements are missing of all overlays the last choice stays. When for `SILENT_SECONDS` no
    heartbeat of the peer has arrived over any, frames have to take another route.
    """

    def __init__(self, overlays, now):
        self.beats = {name: Heartbeats(now) for name in overlays}
        self.chosen = None
        self._ticked = now

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
        confirmed = [beats.confirmed for beats in self.beats.values() if beats.confirmed is not None]
        own = self.beats[name].confirmed
        return own is not None and max(confirmed) - own < LOST_SECONDS

    def _receives(self, now):
        return any(beats.heard is not None and now - beats.heard < SILENT_SECONDS for beats in self.beats.values())
