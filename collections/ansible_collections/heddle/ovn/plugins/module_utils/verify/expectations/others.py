# SPDX-License-Identifier: Apache-2.0
"""All members of a list but one. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class Others:
    """The members of a list without a given one; a list of them for each member would take the square of their number.

    The given one need not be a member.
    """

    def __init__(self, members: Iterable[str]) -> None:
        self._members = list(members)
        self._place = {name: place for place, name in enumerate(self._members)}

    def count(self, without: str) -> int:
        """Return how many there are besides one."""
        return len(self._members) - (without in self._place)

    def at(self, without: str, number: int) -> str:
        """Return one of those besides one, by its place among them; after the last one the first one follows."""
        place = number % self.count(without)
        return self._members[place + (place >= self._place.get(without, len(self._members)))]
