# SPDX-License-Identifier: Apache-2.0
"""Digests of plans, made of those of their entries, so that each entry is read once for the digests of many plans."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from .serialization import canonical

# Parts of a plan that its digest does not cover.
NOT_COVERED = ("digest", "revision")


def entry_digest(entry) -> bytes:
    """Return the digest of an entry of a part, such as a network, or of a part without entries."""
    return hashlib.sha256(canonical(entry).encode()).digest()


def named_digest(entries: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the digest of entries by their names and digests, whatever their order."""
    found = hashlib.sha256()
    for name, one in sorted(entries):
        # No name is part of another one: the digest of an entry has a fixed length, and names have theirs before them.
        found.update(f"{len(name)} {name}".encode() + one)
    return found.digest()


def part_digest(part) -> bytes:
    """Return the digest of a part of a plan."""
    if not isinstance(part, dict):
        return entry_digest(part)
    return named_digest((name, entry_digest(entry)) for name, entry in part.items())


def plan_digest(plan: dict) -> str:
    """Return the digest of a plan's content: equal for equal plans, whatever their revision."""
    return text_of(named_digest((name, part_digest(part)) for name, part in plan.items() if name not in NOT_COVERED))


def text_of(found: bytes) -> str:
    """Return a digest as plans and reports have it."""
    return found.hex()[:16]
