# SPDX-License-Identifier: Apache-2.0
"""The addresses of one name over time: how long each one counts, and when to ask again. Pure."""

from __future__ import annotations

from collections.abc import Set

# Answers are not asked for more often, nor less often, than this.
SHORTEST_SECONDS, LONGEST_SECONDS = 5.0, 1800.0
# Nor is a name that has no address, which it may get at any time (RFC 2308: not every such answer has a TTL).
LONGEST_EMPTY_SECONDS = 30.0
# A workload may use an address for as long as its own resolver keeps it, which may have asked a little later.
GRACE_SECONDS = 60.0
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 5.0, 60.0


class ResolvedName:
    """A name without addresses at first. `now` is any clock that does not jump.

    `failure` says why the last lookup of a family failed, "" while none did.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        # When the next question of a family is due. It may be answered a good while later, where many names wait for
        # resolvers that do not answer: what counts when it is due counts until then.
        self._due: dict[int, float] = {}
        self._failures: dict[int, str] = {}
        self._retry = RETRY_SECONDS
        # Families that were asked for at least once, or of which addresses were restored.
        self._asked: set[int] = set()

    def is_known(self, versions: Set[int]) -> bool:
        """Return whether each of these families has had an answer or a failure, or was restored.

        Before that it has no address because nothing is known of it.
        """
        return versions <= self._asked

    @property
    def failure(self) -> str:
        """Return why addresses may be missing, or be those of before."""
        return "; ".join(dict.fromkeys(self._failures.values()))

    def addresses(self, now: float) -> frozenset[str]:
        """Return the addresses that count."""
        return frozenset(address for address in self._until if self._counts(address, now))

    def restored(self, addresses: list[str], now: float) -> None:
        """Take the addresses that another process had found: they count until the first answer, and for a moment."""
        self._until |= dict.fromkeys(addresses, now + GRACE_SECONDS)
        self._due = {4: now, 6: now}
        # Without an address nothing is known of the name, or nothing was known when the other process ended.
        self._asked |= {4, 6} if addresses else set()

    def answered(self, version: int, addresses: frozenset[str], seconds: float, now: float) -> float:
        """Take an answer; return the seconds until the next question.

        An address counts until the answer that had it has expired, and for a moment longer.
        """
        pause = min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS if addresses else LONGEST_EMPTY_SECONDS)
        self._failures.pop(version, None)
        self._asked.add(version)
        self._retry = RETRY_SECONDS
        self._advance(version, now, pause)
        for address in addresses:
            self._until[address] = now + pause + GRACE_SECONDS
        return pause

    def failed(self, version: int, reason: str, now: float) -> float:
        """Take a failure; return the seconds until the next question. The addresses that count go on to do so."""
        self._failures[version] = reason
        self._asked.add(version)
        pause, self._retry = self._retry, min(2 * self._retry, LONGEST_RETRY_SECONDS)
        self._advance(version, now, pause)
        for address, until in self._until.items():
            if _version(address) == version:
                self._until[address] = max(until, now + pause + GRACE_SECONDS)
        return pause

    def ended(self, version: int) -> None:
        """Forget a family that is not asked for any more."""
        self._until = {address: until for address, until in self._until.items() if _version(address) != version}
        self._due.pop(version, None)
        self._failures.pop(version, None)
        self._asked.discard(version)

    def _counts(self, address: str, now: float) -> bool:
        return min(now, self._due.get(_version(address), now)) < self._until[address]

    def _advance(self, version: int, now: float, pause: float) -> None:
        """Forget what does not count any more. What counts only since this question was late does for a moment."""
        self._until = {
            address: until if now < until else now + GRACE_SECONDS
            for address, until in self._until.items()
            if self._counts(address, now)
        }
        self._due[version] = now + pause


def _version(address: str) -> int:
    return 6 if ":" in address else 4
