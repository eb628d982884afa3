# SPDX-License-Identifier: Apache-2.0
"""Narrows a run of the engine to the rows that two sets of desired rows differ in: those applied before, and new ones.

The rows that differ are read, compared and written; all others of the database are not even read, so the run time
depends on neither their number nor that of a network's rows. It relies on nothing that was true before: a row that is
not as expected is brought to what is desired, or the run fails. What else differs from the desired rows stays, so a
run over everything has to follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from .values import Keys, Ref, Row, Scope

Name = tuple[str, str]


def narrowed(former: Iterable[Row], rows: Iterable[Row], tables: Iterable[str]) -> tuple[list[Row], Scope]:
    """Return the rows and the scope for `reconcile`; no rows and no networks where nothing differs.

    Rows common to all networks are not compared. Among the rows are those that the compared ones need: what they refer
    to, what holds them, and what they hold, which would count as left over otherwise; these are without their columns.
    """
    before, after = ({(row.table, row.key): row for row in some} for some in (former, rows))
    compared = {name for name, row in after.items() if row.network and before.get(name) != row}
    gone = [row for name, row in before.items() if row.network and name not in after]
    holders = {_holder(row) for row in gone}
    for name in compared:
        places = {_holder(one) for one in (before.get(name), after[name]) if one}
        holders |= places if name not in before or len(places) > 1 else set()
    compared |= {name for name in holders if name in after and after[name].network}
    # What is no longer referred to has to be known as the owner's, or it would stay a member.
    left = {
        one
        for name in compared & before.keys()
        for one in set(_references(before[name])) - set(_references(after[name]))
        if one in after
    } - compared
    needed = _needed(after, compared | left)
    found = [row if name in compared else replace(row, columns={}) for name, row in after.items() if name in needed]
    networks = frozenset(row.network for row in gone) | {after[name].network for name in compared}
    read = (*gone, *(after[name] for name in left))
    return found, Scope(frozenset(tables), networks, read, frozenset(compared))


def _holder(row: Row) -> Name | None:
    return (row.parent.table, row.parent.key) if row.parent else None


def _needed(rows: Mapping[Name, Row], compared: Iterable[Name]) -> set[Name]:
    """Return the compared rows with all that they refer to or hold, in turn, and the holders of all of these."""
    held: dict[Name, list[Name]] = {}
    for name, row in rows.items():
        if row.parent:
            held.setdefault((row.parent.table, row.parent.key), []).append(name)
    needed, waiting = set(), [name for name in compared if name in rows]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += held.get(name, ())
            waiting += [one for one in _references(rows[name]) if one in rows]
    for name in list(needed):
        while (holder := _holder(rows[name])) and holder in rows and holder not in needed:
            needed.add(holder)
            name = holder
    return needed


def _references(row: Row) -> list[Name]:
    """Return the rows that a row refers to."""
    found = []
    for value in row.columns.values():
        if isinstance(value, str):
            continue
        if isinstance(value, Keys):
            value = value.values
        if isinstance(value, Mapping):
            value = (*value, *value.values())
        elif not isinstance(value, (set, frozenset, list, tuple)):
            value = (value,)
        found += [(one.table, one.key) for one in value if isinstance(one, Ref)]
    return found
