# SPDX-License-Identifier: Apache-2.0
"""Data classes of desired OVSDB rows."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ref:
    """The uuid of another desired row."""

    table: str
    key: str


@dataclass(frozen=True, slots=True)
class Keys:
    """A map of which only these keys are managed; a value of None means that the key must be absent."""

    values: dict


@dataclass(frozen=True, slots=True)
class Parent:
    """The row is a member of this set column of that row."""

    table: str
    key: str
    column: str


@dataclass(frozen=True, slots=True)
class Row:
    """One desired row. `network` is the unit that it is written with; "" for rows common to all networks.

    `match` finds the row by column values of any owner; such a row is created when missing and never deleted
    unless it carries the owner's mark.
    """

    table: str
    key: str
    columns: dict = field(default_factory=dict)
    network: str = ""
    parent: Parent | None = None
    match: dict | None = None
