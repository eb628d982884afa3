# SPDX-License-Identifier: Apache-2.0
"""The schema of a database, as the server reports it (RFC 7047 section 3.2). Nothing depends on a version number."""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from ..batch import batch_encoder
from ..values import column_encoder

MARKS = "external_ids"
# Keys that daemons write into maps of rows that Heddle owns; a trailing * matches any suffix. ovn-controller:
# ovn-controller(8) "ovn-installed", "ct-zone-*"; they are neither compared nor removed.
VOLATILE = {
    ("Interface", "external_ids"): ("ovn-installed", "ovn-installed-ts"),
    ("Bridge", "external_ids"): ("ct-zone-*",),
}


class Kind(Enum):
    """How a column is compared: as a whole, by members (a set of references), or by keys (a map)."""

    WHOLE = 1
    MEMBERS = 2
    MAP = 3


WHOLE, MEMBERS, MAP = Kind.WHOLE, Kind.MEMBERS, Kind.MAP  # attribute access on the class is slow


class UnknownName(LookupError):
    """The database of this server has no such table or column; the message names its schema version."""


class Column:
    """One column: how its values are encoded and compared, and which rows they refer to."""

    def __init__(self, table, name, schema):
        type_ = schema["type"]
        type_ = {"key": type_} if isinstance(type_, str) else type_
        bases = [base for base in (type_["key"], type_.get("value")) if isinstance(base, dict)]
        self.name = name
        self._type = type_
        self.refers = tuple(base["refTable"] for base in bases if "refTable" in base)
        self.strong = any("refTable" in base and base.get("refType", "strong") == "strong" for base in bases)
        self.mutable = schema.get("mutable", True)
        self.ephemeral = schema.get("ephemeral", False)
        self.volatile = VOLATILE.get((table, name), ())
        self.kind = Kind.WHOLE
        if "value" in type_:
            self.kind = Kind.MAP
        elif self.refers and type_.get("max", 1) != 1:
            self.kind = Kind.MEMBERS

    # Most columns of a database are never written, and making their encoders takes longer than reading one network.
    @cached_property
    def encode(self):
        """A function `(value, resolve) -> wire value`; it raises `BadValue`."""
        return column_encoder(self._type)

    @cached_property
    def encode_all(self):
        """The same for a list of values at once; see `batch_encoder`."""
        return batch_encoder(self._type, self.encode)


class Table:
    """One table: its columns, whether its rows live on their own (`root`), and whether they can carry marks."""

    __slots__ = ("columns", "marked", "name", "root", "title")

    def __init__(self, name, schema, all_root):
        self.name = name
        self.columns = {column: Column(name, column, value) for column, value in schema["columns"].items()}
        self.root = all_root or schema.get("isRoot", False)
        self.marked = MARKS in self.columns and self.columns[MARKS].kind is Kind.MAP
        indexed = [index[0] for index in schema.get("indexes", ())]
        self.title = next((column for column in ("name", *indexed) if column in self.columns), None)


_SCHEMAS = {}


def schema_of(raw):
    """The `Schema` of a `get_schema` reply. The last one of each database is kept: making its columns and their
    encoders takes a process longer than comparing the rows of a network."""
    kept = _SCHEMAS.get(raw["name"])
    if kept is None or kept[0] != raw:
        kept = _SCHEMAS[raw["name"]] = raw, Schema(raw)
    return kept[1]


class Schema:
    """All tables of one database. It never changes once it is made."""

    def __init__(self, raw):
        self.name, self.version = raw["name"], raw.get("version", "unknown")
        # Schemas from before `isRoot` existed never collect rows (RFC 7047 section 3.2, <table-schema>).
        all_root = not any(table.get("isRoot") for table in raw["tables"].values())
        self.tables = {name: Table(name, table, all_root) for name, table in raw["tables"].items()}
        self.holders = {name: [] for name in self.tables}
        for table in self.tables.values():
            for column in table.columns.values():
                if column.strong:
                    for target in column.refers:
                        self.holders[target].append((table.name, column))

    def table(self, name):
        """A table by name; raises `UnknownName`."""
        try:
            return self.tables[name]
        except KeyError:
            raise UnknownName(f"{self.name} schema {self.version} on this host has no table {name}") from None

    def column(self, table, name):
        """A column by name; raises `UnknownName`."""
        try:
            return table.columns[name]
        except KeyError:
            raise UnknownName(
                f"{self.name} schema {self.version} on this host has no column {name} in table {table.name}"
            ) from None
