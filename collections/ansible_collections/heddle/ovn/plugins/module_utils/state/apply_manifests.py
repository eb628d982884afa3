# SPDX-License-Identifier: Apache-2.0
"""Manifests into the database: read, admit, write, and again when somebody else was faster."""

from __future__ import annotations

from collections.abc import Callable

from ..model import Problem
from ..ovsdb_client import Conflict, Duplicate
from .database import DATABASE, operations, read
from .snapshot import Snapshot

ATTEMPTS = 20


class Rejected(Exception):
    """The manifests cannot be admitted; `problems` says why, one entry per mistake."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def store(
    client, decide: Callable[[Snapshot], tuple[Snapshot, list[Problem]]], *, write: bool
) -> tuple[Snapshot, Snapshot]:
    """Bring the database to what `decide` makes of it; returns the snapshots before and after.

    `client` may be None: then the database does not exist yet and counts as empty, which only check mode may ask.
    Raises Rejected when `decide` finds problems, Conflict or Duplicate when others kept writing for all attempts.
    """
    attempt = 0
    while True:
        attempt += 1
        before = read(client) if client else Snapshot()
        after, problems = decide(before)
        if problems:
            raise Rejected(problems)
        transaction = operations(before, after)
        if not transaction or not write:
            return before, after
        try:
            client.transact(DATABASE, transaction)
        except (Conflict, Duplicate):
            if attempt == ATTEMPTS:
                raise
            continue
        after.revision = before.revision + 1
        return before, after
