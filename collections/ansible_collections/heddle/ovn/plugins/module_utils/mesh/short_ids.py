# SPDX-License-Identifier: Apache-2.0
"""Which peer owns which short id, as one peer sees it (Weave's mesh library, peers.go).

Peers choose 12 bits at random, so two may choose the same. The lowest name keeps it; the others choose again. Every
peer applies this rule to what it knows, so all agree once they know the same. Methods return True when an id that
flows may have been made for now means another peer: then all flows have to be deleted.
"""

from __future__ import annotations

from .peers import SHORT_IDS

_TRIES = 10


class ShortIds:
    """Claims by id. An id that was released stays known: using it again invalidates flows of its former owner."""

    def __init__(self):
        self._claims = {}

    def add(self, name, short_id):
        """Record a claim."""
        claims = self._claims.get(short_id)
        if claims is None:
            self._claims[short_id] = [name]
            return False
        changed = not claims or name < claims[0]
        claims.append(name)
        claims.sort()
        return changed

    def remove(self, name, short_id):
        """Remove a claim; the next lowest name becomes the owner."""
        claims = self._claims[short_id]
        owner = claims[0]
        claims.remove(name)
        return name == owner and bool(claims)

    def owner(self, short_id):
        """The peer that frames with this id belong to, or None."""
        claims = self._claims.get(short_id)
        return claims[0] if claims else None

    def choose(self, random):
        """Return a free id, or None when there is none. `random` is a random.Random."""
        for _attempt in range(_TRIES):
            short_id = random.randrange(SHORT_IDS)
            if not self._claims.get(short_id):
                return short_id
        free = [short_id for short_id in range(SHORT_IDS) if not self._claims.get(short_id)]
        return random.choice(free) if free else None
