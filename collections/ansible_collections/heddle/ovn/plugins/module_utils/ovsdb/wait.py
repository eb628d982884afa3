# SPDX-License-Identifier: Apache-2.0
"""Waits for rows to reach a state, and until a Northbound change is programmed on the chassis.

The latter is the protocol of ovn-architecture(7), "Information Flow": `nb_cfg` is copied to `sb_cfg` when northd has
translated the change, and as `hv_cfg` when every ovn-controller has it in its flows.
"""

from __future__ import annotations

import time

from ..common.databases import OVN_NORTHBOUND
from ..common.polling import attempts
from .client import OvsdbError


class TimedOut(OvsdbError):
    """The awaited state was not reached; `seen` are the rows as last read."""

    def __init__(self, database: str, details: str, seen: list) -> None:
        super().__init__(database, "timed out", details)
        self.seen = seen

    def __str__(self) -> str:
        return self.details


class NotProgrammed(TimedOut):
    """A Northbound change was not programmed in time."""


class NorthdSilent(NotProgrammed):
    """ovn-northd did not translate the change."""


class ChassisBehind(NotProgrammed):
    """northd is done, but at least one ovn-controller is not; which one, only the Southbound's Chassis_Private says."""


def wait_until(client, database: str, table: str, where: list, columns: list, predicate, timeout: float) -> list:
    """Read rows until `predicate(rows)` holds and return them; `TimedOut` after `timeout` seconds."""
    select = {"op": "select", "table": table, "where": where, "columns": columns}
    rows: list = []
    for _attempt in attempts(timeout, shortest=0.005):
        rows = client.transact(database, [select])[0]["rows"]
        if predicate(rows):
            return rows
    raise TimedOut(database, f"{database} {table} did not become as expected within {timeout:g} s", rows)


def caught_up(client) -> bool:
    """Return whether every announced change is programmed: `sb_cfg` and `hv_cfg` have reached `nb_cfg` (ovn-nb(5)).

    `client` is connected to the Northbound database. OvsdbError when it does not answer.
    """
    select = {"op": "select", "table": "NB_Global", "where": [], "columns": ["nb_cfg", "sb_cfg", "hv_cfg"]}
    rows = client.transact(OVN_NORTHBOUND, [select])[0]["rows"]
    return all(row["sb_cfg"] >= row["nb_cfg"] and row["hv_cfg"] >= row["nb_cfg"] for row in rows)


def synchronise(client, timeout: float) -> dict:
    """Announce a change in `nb_cfg` and wait for `sb_cfg` (northd) and `hv_cfg` (ovn-controller) to reach it.

    Returns the three numbers and how many `seconds` it took. Errors after `timeout` seconds: `NorthdSilent`,
    `ChassisBehind`; `OvsdbError` when the database has no NB_Global row, which northd makes when it starts.
    """
    start = time.monotonic()
    target = _announce(client)

    def reached(column):
        return lambda rows: bool(rows) and rows[0][column] >= target

    steps = (
        ("sb_cfg", NorthdSilent, "ovn-northd has not processed the change after {:g} s; see its log"),
        ("hv_cfg", ChassisBehind, "an ovn-controller has not programmed the change after {:g} s; see their logs"),
    )
    seen = []
    for column, error, message in steps:
        left = max(start + timeout - time.monotonic(), 0)
        try:
            seen = wait_until(
                client, OVN_NORTHBOUND, "NB_Global", [], ["nb_cfg", "sb_cfg", "hv_cfg"], reached(column), left
            )
        except TimedOut as late:
            raise error(OVN_NORTHBOUND, message.format(timeout), late.seen) from None
    return {**seen[0], "seconds": time.monotonic() - start}


def _announce(client) -> int:
    """Count `nb_cfg` up and return its new value; one transaction, so that two announcers get two numbers."""
    mutate = {"op": "mutate", "table": "NB_Global", "where": [], "mutations": [["nb_cfg", "+=", 1]]}
    select = {"op": "select", "table": "NB_Global", "where": [], "columns": ["nb_cfg"]}
    counted, answer = client.transact(OVN_NORTHBOUND, [mutate, select])
    if not counted["count"]:
        raise OvsdbError(OVN_NORTHBOUND, "no NB_Global row", "ovn-northd makes it when it starts; is it running?")
    return answer["rows"][0]["nb_cfg"]
