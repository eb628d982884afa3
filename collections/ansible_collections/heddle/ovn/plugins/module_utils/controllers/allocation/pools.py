# SPDX-License-Identifier: Apache-2.0
"""Pools of values and the one rule by which values are allocated.

A current claimant keeps its value, values without a claimant are freed, and new claimants get the next candidate.
Concurrent allocation is not handled here: a snapshot is written only if no other client has written since it was read,
and only if no pool has a value twice (`store/database.py`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ...common.text.some_of import some_of
from ...store.snapshot import Snapshot

# Object key, rule, remedy.
AllocationFailure = tuple[str, str, str]
_SHOWN = 5


@dataclass
class Pool:
    """The claimants of values, and where free values come from.

    `holds` names what it has in messages ("node ports 30000 to 32767"), and `remedy` ends them. `candidates` yields
    free values in order, of those that are not in the set; with `round_robin` they begin after the last one that was
    allocated. `owners` maps an owner to the key of the object that gets the error when the pool is exhausted. `asked`
    holds the values that owners request explicitly. Owners for whom `is_kept` is true keep their value without claiming
    it.
    """

    name: str
    holds: str
    remedy: str
    candidates: Callable[[set[str]], Iterator[str]]
    owners: dict[str, str] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    is_kept: Callable[[str], bool] | None = None
    round_robin: bool = False


def workload_of(owner: str) -> str:
    """Return the workload (`namespace/name`) that an owner is an interface of."""
    return "/".join(owner.split("/")[:2])


def allocate_pool(snapshot: Snapshot, pool: Pool) -> list[AllocationFailure]:
    """Update one pool of the snapshot to its claims; return what could not be allocated.

    A pool with the right values stays the same mapping, so that what did not change is found without a comparison.
    """
    held = snapshot.allocations.get(pool.name, {})
    if held and held.keys() == pool.owners.keys() and all(held[owner] == value for owner, value in pool.asked.items()):
        return []
    kept = {
        owner: value
        for owner, value in held.items()
        if (owner in pool.owners and pool.asked.get(owner, value) == value)
        or (owner not in pool.owners and pool.is_kept is not None and pool.is_kept(owner))
    }
    holders = {value: owner for owner, value in kept.items()}
    failures = []
    for owner in sorted(set(pool.asked) - set(kept)):
        value = pool.asked[owner]
        if value in holders:
            failures.append((pool.owners[owner], *_held(pool, value, holders[value])))
            continue
        kept[owner] = value
        holders[value] = owner
    waiting = sorted(set(pool.owners) - set(pool.asked) - set(kept))
    taken = set(holders)
    fresh = pool.candidates(taken)
    for owner in waiting:
        value = next(fresh, None)
        if value is None:
            failures.append((pool.owners[owner], *_exhausted(pool, kept)))
            continue
        kept[owner] = value
        taken.add(value)
        if pool.round_robin:
            snapshot.cursors[pool.name] = int(value) + 1
    snapshot.allocations[pool.name] = kept
    return list(dict.fromkeys(failures))


def _held(pool: Pool, value: str, holder: str) -> tuple[str, str]:
    """Return rule and remedy for a value that another owner has."""
    if holder in pool.owners:
        return f"{value} is held by {holder}", "choose another one"
    return (
        f"{value} is held by {holder}, which is gone and keeps it (lifecycle Persistent)",
        f"choose another one, or release it: -e heddle_released={workload_of(holder)}",
    )


def _exhausted(pool: Pool, kept: dict[str, str]) -> tuple[str, str]:
    """Return rule and remedy for an exhausted pool."""
    gone = sorted(set(kept) - set(pool.owners))
    text = f"{pool.holds}: {len(pool.owners)} are wanted, all {len(kept)} are taken"
    if not gone:
        return text, pool.remedy
    return (
        f"{text}, {len(gone)} of them kept for what is gone (lifecycle Persistent): {some_of(gone, _SHOWN)}",
        f"release what does not come back, as in -e heddle_released={workload_of(gone[0])}, or {pool.remedy}",
    )


def numbers(first: int, last: int, start: int | None = None) -> Callable[[set[str]], Iterator[str]]:
    """Candidates first..last that are free; with `start` the search begins there and wraps (freed ids rest)."""

    def candidates(taken: set[str]) -> Iterator[str]:
        begin = start if start is not None and first <= start <= last else first
        for number in itertools.chain(range(begin, last + 1), range(first, begin)):
            if str(number) not in taken:
                yield str(number)

    return candidates


def local_mac(words: Iterable[str], taken: set[str]) -> str:
    """Return a locally administered unicast MAC that is not taken.

    It is derived from the words, so a run in check mode shows what the next one writes.
    """
    for attempt in itertools.count():
        octets = bytearray(hashlib.sha256("\0".join([*words, str(attempt)]).encode()).digest()[:6])
        octets[0] = octets[0] & 0xFC | 0x02
        mac = ":".join(f"{octet:02x}" for octet in octets)
        if mac not in taken:
            return mac
    raise AssertionError("counting does not end")
