# SPDX-License-Identifier: Apache-2.0
"""What peers gossip about each other.

A peer changes only its own record and raises `version` with each change. `uid` is of one process: after a restart a
peer begins again with version 0 and supersedes the record that others still have (`Gossip.receive`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHORT_ID_BITS = 12
SHORT_IDS = 1 << SHORT_ID_BITS


@dataclass(frozen=True, slots=True)
class Peer:
    """One peer: `name` is a MAC address, `links` has for each neighbour whether that connection is established."""

    name: str
    nickname: str
    uid: int
    version: int
    short_id: int | None
    links: Mapping[str, bool]

    def newer_than(self, other):
        """True when this record replaces `other`: version, then uid, then the first appearance of a short id."""
        if (self.version, self.uid) != (other.version, other.uid):
            return (self.version, self.uid) > (other.version, other.uid)
        return other.short_id is None and self.short_id is not None


def vni(source, destination):
    """The VXLAN network identifier of a frame between two short ids: the source is in the low 12 bits."""
    return source | destination << SHORT_ID_BITS


def short_ids_of(identifier):
    """Source and destination short id of a VXLAN network identifier."""
    return identifier % SHORT_IDS, identifier >> SHORT_ID_BITS
