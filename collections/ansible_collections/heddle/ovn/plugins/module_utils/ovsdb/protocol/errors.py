# SPDX-License-Identifier: Apache-2.0
"""Errors of an OVSDB server. They name the operation and its table, but never its values."""

from __future__ import annotations


class OvsdbError(Exception):
    """A transaction or request failed; nothing of it was committed.

    `error` is the server's error code (RFC 7047 sections 3.1 and 4.1.3), `index` the position of the operation in the
    transaction, None when it failed at commit, `table` the operation's table.
    """

    def __init__(self, database, error, details="", index=None, operation=None):
        self.database, self.error, self.details, self.index = database, error, details, index
        self.table = (operation or {}).get("table")
        where = "at commit" if index is None else f"operation {index} ({(operation or {}).get('op')} {self.table})"
        super().__init__(f"{database}: {where}: {error}" + (f": {details}" if details else ""))


class Conflict(OvsdbError):
    """A concurrent change invalidated the transaction: a `wait` did not hold, or a row it refers to is gone."""


class Duplicate(Conflict):
    """A conflict detected at insert: a row with that uuid, or with equal values in a unique index, exists already."""


class Unreachable(OvsdbError):
    """No connection, or it broke or timed out."""

    def __init__(self, remote, reason):
        super().__init__(remote, "no connection", reason)

    def __str__(self):
        return f"{self.database}: {self.details}"


class Interrupted(OvsdbError):
    """The server, or the cluster's leader, changed during a write; whether it was committed is not known."""

    def __init__(self, database, reason):
        super().__init__(database, "interrupted", reason)

    def __str__(self):
        return (
            f"{self.database}: the server changed during a transaction ({self.details}). It was committed as a whole "
            "or not at all; run this again, which completes what is missing"
        )


class WriteRefused(OvsdbError):
    """A write was attempted through a read-only client; nothing was sent."""


def error_of(database, result, index=None, operation=None):
    """Return the exception for an error object of a server (RFC 7047 section 3.1; ovsdb-server(7) 5.2.1).

    A member reports `cluster error` when its cluster did not accept the transaction (ovsdb(7), "Clustered").
    """
    error, details = result["error"], result.get("details", "")
    if error == "cluster error":
        return Interrupted(database, details or error)
    kind = OvsdbError
    if error in ("timed out", "referential integrity violation"):
        kind = Conflict
    elif error == "duplicate uuid" or (error == "constraint violation" and "identical values" in details):
        kind = Duplicate
    return kind(database, error, details, index, operation)
