# SPDX-License-Identifier: Apache-2.0
"""Expiry of flows by their counters (weave, docs/fastdp.md, "Flow Invalidation").

Open vSwitch counts the packets of a flow since it was made, so what one interval counted is a difference.
"""

from __future__ import annotations

SWEEP_SECONDS = 300


class Expiry:
    """The counters of the last sweep by the keys of the flows."""

    def __init__(self):
        self._seen = {}

    def sweep(self, packets):
        """Return the flows without a packet since the last sweep, to be deleted, and the others.

        Those are decided anew, without a frame, so that the addresses of a running connection do not expire. `packets`
        is {key: packets}. A counter below the last one is that of a flow which was made again.
        """
        unused = {key for key, count in packets.items() if count == self._seen.get(key, 0) or not count}
        self._seen = {key: count for key, count in packets.items() if key not in unused}
        return unused, packets.keys() - unused
