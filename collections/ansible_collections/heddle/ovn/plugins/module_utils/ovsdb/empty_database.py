# SPDX-License-Identifier: Apache-2.0
"""Check mode for a database that does not exist yet: an empty host has no server to read."""

from __future__ import annotations

from ..common.change import Change, Outcome
from .diff import described


def planned(database, rows):
    """Return an `Outcome` in which every one of the desired `rows` of a database is created.

    Nothing is checked against a schema, as there is none.
    """
    return Outcome(
        tuple(
            Change(
                database,
                "create",
                row.table,
                str(row.columns.get("name") or row.key),
                row.network,
                {},
                {name: described(value) for name, value in row.columns.items()},
            )
            for row in rows
        )
    )
