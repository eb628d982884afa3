# SPDX-License-Identifier: Apache-2.0
"""Which overlay carries the frames of a connection (weave, docs/fastdp.md, "Overlay Method Selection").

All overlays that both ends have run in parallel, all the time: in each round a heartbeat with the same number is sent
over every one of them. Each end chooses for what it sends, since a path may fail in one direction only; frames are
received over any.
"""

from __future__ import annotations

from .heartbeat import Heartbeats
from .rounds import Rounds

# Heartbeats in a row that an overlay loses and another one does not.
LOST_HEARTBEATS = 3
# Of a neighbour without heartbeats: seconds, and how often it has announced meanwhile that it has sent some.
SILENT_SECONDS, LOST_ANNOUNCEMENTS = 3, 3
# `evaluate` is called at least every 0.2 s by a process that runs in time.
_LONGEST_PAUSE_SECONDS = 0.25


class Selection:
    """`overlays` in order of preference. `chosen` is the one to send over, None while the connection carries nothing.

    An overlay has failed when the peer has acknowledged a heartbeat of another one that was sent `LOST_HEARTBEATS`
    rounds after the last that it acknowledged of this one. So a peer that is busy, or a control channel that stalls,
    changes nothing: while acknowledgements are missing of all overlays the last choice stays.

    Frames have to take another route when for `SILENT_SECONDS` no heartbeat of the peer has arrived over any overlay,
    unless its process is slow: the peer's kernel acknowledges what the control channel sends, and the peer has not
    announced `LOST_ANNOUNCEMENTS` times meanwhile that it has sent heartbeats. A pause of this process is no silence of
    the peer.
    """

    def __init__(self, overlays, now):
        self.beats = {name: Heartbeats() for name in overlays}
        self.chosen = None
        self._evaluated = now
        self.rounds = Rounds()
        self._announced = 0

    def acknowledged(self, name, number, now):
        """The peer has received a heartbeat over an overlay."""
        self.beats[name].acknowledged(number, now)
        self.rounds.acknowledged(number, now)

    def heard(self, name, number, now):
        """A heartbeat of the peer has arrived over an overlay."""
        self.beats[name].heard, self.beats[name].heard_number = now, number
        self._announced = 0

    def announced(self):
        """The peer has sent heartbeats over all overlays, as it says over the control channel."""
        self._announced += 1

    def evaluate(self, now, is_acknowledging):
        """Choose; True when the choice is another one now. Call it often, and before a message of the peer counts.

        `is_acknowledging()` is whether the peer's kernel acknowledges what the control channel sends.
        """
        pause = now - self._evaluated - _LONGEST_PAUSE_SECONDS
        self._evaluated = now
        if pause > 0:
            for beats in self.beats.values():
                if beats.heard is not None:
                    beats.heard = min(beats.heard + pause, now)
        before = self.chosen
        sending = [name for name in self.beats if self.sends(name)]
        self.chosen = sending[0] if sending and self._receives(now, is_acknowledging) else None
        return self.chosen != before

    def sends(self, name):
        """Whether the peer receives what is sent over an overlay, as far as it is known."""
        latest = [beats.latest for beats in self.beats.values() if beats.latest is not None]
        own = self.beats[name].latest
        return own is not None and max(latest) - own < LOST_HEARTBEATS

    def _receives(self, now, is_acknowledging):
        if any(beats.heard is not None and now - beats.heard < SILENT_SECONDS for beats in self.beats.values()):
            return True
        return self.chosen is not None and self._announced < LOST_ANNOUNCEMENTS and is_acknowledging()
