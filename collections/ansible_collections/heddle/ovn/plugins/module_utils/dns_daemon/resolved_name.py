# SPDX-License-Identifier: Apache-2.0
"""The addresses of one name over time: how long each one counts, and when to ask again. Pure."""

from __future__ import annotations

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
        self._failures: dict[int, str] = {}
        self._restored: set[str] = set()
        self._retry = RETRY_SECONDS

    @property
    def failure(self) -> str:
        """Return why addresses may be missing, or be those of before."""
        return "; ".join(dict.fromkeys(self._failures.values()))

    def addresses(self, now: float) -> frozenset[str]:
        """Return the addresses that count."""
        return frozenset(address for address, until in self._until.items() if now < until)

    def restored(self, addresses: list[str], now: float) -> None:
        """Take the addresses that another process had found: they count until the first answer of their family.

        And for a moment longer, as any address; without an answer or a failure for `LONGEST_SECONDS`.
        """
        self._until |= dict.fromkeys(addresses, now + LONGEST_SECONDS)
        self._restored |= {*addresses}

    def answered(self, version: int, addresses: frozenset[str], seconds: float, now: float) -> float:
        """Take an answer; return the seconds until the next question.

        An address counts until the answer that had it has expired, and for a moment longer.
        """
        pause = min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS if addresses else LONGEST_EMPTY_SECONDS)
        self._failures.pop(version, None)
        self._retry = RETRY_SECONDS
        self._end_restored(version, now)
        for address in addresses:
            self._until[address] = now + pause + GRACE_SECONDS
        self._until = {address: until for address, until in self._until.items() if now < until}
        return pause

    def failed(self, version: int, reason: str, now: float) -> float:
        """Take a failure; return the seconds until the next question. The addresses of before go on to count."""
        self._failures[version] = reason
        pause, self._retry = self._retry, min(2 * self._retry, LONGEST_RETRY_SECONDS)
        self._end_restored(version, now)
        for address, until in self._until.items():
            if (":" in address) == (version == 6):
                self._until[address] = max(until, now + pause + GRACE_SECONDS)
        return pause

    def _end_restored(self, version: int, now: float) -> None:
        for address in [one for one in self._restored if (":" in one) == (version == 6)]:
            self._restored.discard(address)
            self._until[address] = now + GRACE_SECONDS
