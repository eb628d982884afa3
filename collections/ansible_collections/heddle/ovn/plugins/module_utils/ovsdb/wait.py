# SPDX-License-Identifier: Apache-2.0
"""Waits for rows to reach a state, and until a Northbound change is programmed on the chassis.

The latter follows the number `nb_cfg` of the change (ovn-architecture(7), "Information Flow"). northd copies it to the
Southbound's SB_Global in the transaction that has the change, and each ovn-controller to its row of Chassis_Private
when the flows are there. These are read, and not `sb_cfg` and `hv_cfg` of the Northbound, which have the same meaning:
northd writes them in its next run, and after a new network that one computes all networks once more (OVN 25.03,
`en_northd` has no handler for the input `SB_datapath_binding`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from ..common.change import Change
from ..common.databases import OVN_NORTHBOUND, OVN_SOUTHBOUND
from ..common.polling import attempts
from .control_socket import CONTROLLER, NORTHD
from .patience import attempts_while_working, processor_seconds
from .protocol.client import OvsdbError

# Most seconds between two reads of a number: daemons take half a second for a small change.
_PAUSE = 0.05


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
    """northd is done, but at least one ovn-controller is not; `seen` are the names of their chassis."""


class Announcement:
    """Counts `nb_cfg` up in the transaction that completes a change (`reconcile(..., closing=)`), as ovn-nbctl does.

    northd begins with the first transaction that it sees. A number of its own transaction is read when that run has
    ended, and reaches the Southbound one run later.
    """

    table, column = "NB_Global", "nb_cfg"

    def __init__(self, planned: Callable[[list[Change]], None] | None = None) -> None:
        self.number: int | None = None
        # Called with the changes of each transaction before it is sent.
        self.planned = planned
        self.operations = (
            {"op": "mutate", "table": self.table, "where": [], "mutations": [[self.column, "+=", 1]]},
            {"op": "select", "table": self.table, "where": [], "columns": [self.column]},
        )

    def committed(self, results: list) -> None:
        """Note the number; without a row in the table there is none."""
        rows = results[-1]["rows"]
        self.number = rows[0][self.column] if rows else None


def wait_until(
    client, database: str, table: str, where: list, columns: list, predicate, timeout: float, longest: float = 0.25
) -> list:
    """Read rows until `predicate(rows)` holds and return them; `TimedOut` after `timeout` seconds.

    `longest` is how many seconds are between two reads at most.
    """
    select = {"op": "select", "table": table, "where": where, "columns": columns}
    rows: list = []
    for _attempt in attempts(timeout, shortest=0.005, longest=longest):
        rows = client.transact(database, [select])[0]["rows"]
        if predicate(rows):
            return rows
    raise TimedOut(database, f"{database} {table} did not become as expected within {timeout:g} s", rows)


def caught_up(northbound, southbound, chassis: str = "") -> bool:
    """Return whether every announced change is programmed: all daemons have reached `nb_cfg` (ovn-nb(5)).

    `northbound` and `southbound` are connected to the databases. The ovn-controller of `chassis`, if given, must be
    registered. OvsdbError when a database does not answer.
    """
    select = {"op": "select", "table": "NB_Global", "where": [], "columns": ["nb_cfg"]}
    for row in northbound.transact(OVN_NORTHBOUND, [select])[0]["rows"]:
        translated = southbound.transact(OVN_SOUTHBOUND, [{**select, "table": "SB_Global"}])[0]["rows"]
        if not _reached(row["nb_cfg"])(translated) or _behind(southbound, row["nb_cfg"], chassis):
            return False
    return True


def synchronise(northbound, southbound, timeout: float, announced: int | None = None, *, chassis: str = "") -> int:
    """Wait until northd and all ovn-controllers have reached a number of `nb_cfg`, and return it.

    Without `announced` it is counted up here. An ovn-controller that registers anew has no row meanwhile; that of
    `chassis` is waited for. Errors when the daemon of this host that is late has done nothing for `timeout` seconds
    (`patience.py`): `NorthdSilent`, `ChassisBehind`; `OvsdbError` when the database has no NB_Global row, which northd
    makes when it starts.
    """
    start = time.monotonic()
    target = _announce(northbound) if announced is None else announced
    select = {"op": "select", "table": "SB_Global", "where": [], "columns": ["nb_cfg"]}
    reached, rows = _reached(target), []
    for _attempt in attempts_while_working(timeout, partial(processor_seconds, NORTHD), _PAUSE):
        rows = southbound.transact(OVN_SOUTHBOUND, [select])[0]["rows"]
        if reached(rows):
            break
    else:
        message = f"ovn-northd has not processed the change after {time.monotonic() - start:.0f} s; see its log"
        raise NorthdSilent(OVN_NORTHBOUND, message, rows)
    for _attempt in attempts_while_working(timeout, partial(processor_seconds, CONTROLLER), _PAUSE):
        behind = _behind(southbound, target, chassis)
        if not behind:
            return target
    message = (
        f"the ovn-controller of {', '.join(behind)} has not programmed the change after "
        f"{time.monotonic() - start:.0f} s; see its log"
    )
    raise ChassisBehind(OVN_NORTHBOUND, message, behind)


def _reached(target: int):
    return lambda rows: bool(rows) and rows[0]["nb_cfg"] >= target


def _behind(southbound, target: int, chassis: str) -> list[str]:
    """Return the chassis whose ovn-controller has not programmed a number, without those of other zones.

    That of `chassis`, if given, is one of them as long as it is not registered.
    """
    remote = [["other_config", "includes", ["map", [["is-remote", "true"]]]]]
    private, elsewhere = southbound.transact(
        OVN_SOUTHBOUND,
        [
            {"op": "select", "table": "Chassis_Private", "where": [], "columns": ["name", "nb_cfg"]},
            {"op": "select", "table": "Chassis", "where": remote, "columns": ["name"]},
        ],
    )
    programmed = {row["name"]: row["nb_cfg"] for row in private["rows"]}
    names = (programmed.keys() | {chassis}) - {"", *(row["name"] for row in elsewhere["rows"])}
    return sorted(name for name in names if programmed.get(name, -1) < target)


def _announce(client) -> int:
    """Count `nb_cfg` up and return its new value; one transaction, so that two announcers get two numbers."""
    announcement = Announcement()
    announcement.committed(client.transact(OVN_NORTHBOUND, list(announcement.operations)))
    if announcement.number is None:
        raise OvsdbError(OVN_NORTHBOUND, "no NB_Global row", "ovn-northd makes it when it starts; is it running?")
    return announcement.number
