# SPDX-License-Identifier: Apache-2.0
"""Conversion of column values to and from the wire format (RFC 7047 section 5.1).

The wire form made here equals the one in ovsdb-server's replies: sets and maps sorted, a set of one written as the bare
value. So values are compared by `==`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..types.ovsdb_row import Keys, Parent, Ref, Row

__all__ = [
    "BadValue",
    "Keys",
    "Parent",
    "Ref",
    "Row",
    "Scope",
    "all_uuids",
    "column_encoder",
    "map_pairs",
    "map_wire",
    "set_atoms",
    "set_wire",
    "to_python",
    "uuid_list",
    "uuids",
]


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a run. `tables`: where rows that are not desired are deleted (`None`: all tables of the database).

    `networks`: the units that are compared and written (`None`: all); rows of other units only serve as targets of
    references then. Give `tables` for databases with large foreign tables, such as the Southbound.

    `former`: rows that these networks had, as rendered from the plan applied before. With it no table is scanned:
    desired and former rows are read by uuid, then the rows that they hold, so the run time does not depend on the size
    of the database. Undesired rows that are not found this way stay until a run without `former`.

    `only`: of the desired rows of these networks, those (table, key) that are compared and written; the others serve as
    targets of references (`None`: all). It needs `former`; `ovsdb/narrowing.py` makes such a scope.

    `without`: units that are not changed, whatever rows the database has of them.
    """

    tables: frozenset[str] | None = None
    networks: frozenset[str] | None = None
    former: tuple[Row, ...] | None = None
    only: frozenset[tuple[str, str]] | None = None
    without: frozenset[str] = frozenset()


class BadValue(ValueError):
    """A Python value does not fit the type of its column."""


def map_wire(pairs):
    """The wire form of a map whose keys and values are wire atoms already."""
    return ["map", [[key, pairs[key]] for key in sorted(pairs)]]


def set_wire(atoms):
    """The wire form of a set of wire atoms."""
    atoms = sorted(atoms)
    unique = [atom for index, atom in enumerate(atoms) if not index or atom != atoms[index - 1]]
    return unique[0] if len(unique) == 1 else ["set", unique]


def set_atoms(wire):
    """The atoms of a set on the wire."""
    return wire[1] if isinstance(wire, list) and wire[0] == "set" else [wire]


def map_pairs(wire):
    """A map on the wire, as a dict of its wire atoms."""
    return dict(wire[1])


def uuid_list(wire):
    """The uuids of a set of uuids on the wire as text, in the order of the wire; one alone comes without a set."""
    return [atom[1] for atom in set_atoms(wire)]


def uuids(wire):
    """The uuids of a set of uuids on the wire, as a Python set of text."""
    return set(uuid_list(wire))


def all_uuids(wire):
    """All uuids in a column value: a reference, a set of them, or a map with them."""
    if not isinstance(wire, list):
        return set()
    if wire[0] == "uuid":
        return {wire[1]}
    items = wire[1] if wire[0] == "set" else (item for pair in wire[1] for item in pair)
    return set().union(*map(all_uuids, items))


def to_python(wire, names=MappingProxyType({})):
    """A readable Python value for a wire value: dict, list, scalar; a uuid becomes its name in `names`, or its text."""
    if not isinstance(wire, list):
        return wire
    kind, content = wire
    if kind == "map":
        return {to_python(key, names): to_python(value, names) for key, value in content}
    if kind == "set":
        return [to_python(atom, names) for atom in content]
    return names.get(content, content)


def atom_encoder(base):
    """A function `(value, resolve) -> wire atom` for a base type of a schema; it raises `BadValue`.

    `resolve` turns a `Ref` into the uuid of its row.
    """
    base = {"type": base} if isinstance(base, str) else base
    encode = _ATOMS[base["type"]]
    allowed = base.get("enum")
    if allowed is not None:
        values = frozenset(set_atoms(allowed))
        return lambda value, resolve: _one_of(encode(value, resolve), values)
    low, high = (base.get(f"{edge}{_LIMITS.get(base['type'])}") for edge in ("min", "max"))
    if low is not None or high is not None:
        return lambda value, resolve: _within(encode(value, resolve), low, high)
    return encode


def column_encoder(schema):
    """A function `(value, resolve) -> wire value` for the type of a column; it raises `BadValue`."""
    if isinstance(schema, str):
        return atom_encoder(schema)
    key = atom_encoder(schema["key"])
    least, most = schema.get("min", 1), schema.get("max", 1)
    if "value" in schema:
        return _map_encoder(key, atom_encoder(schema["value"]), _is_text(schema["key"]) and _is_text(schema["value"]))
    if (least, most) == (1, 1):
        return key
    return _set_encoder(key, least, most)


def _set_encoder(encode, least, most):
    def encode_set(value, resolve):
        if value is None:
            value = ()
        elif not isinstance(value, (set, frozenset, list, tuple)):
            value = (value,)
        wire = set_wire([encode(item, resolve) for item in value])
        count = len(set_atoms(wire))
        if count < least or (most != "unlimited" and count > most):
            raise BadValue(f"expected {least} to {most} values, got {count}")
        return wire

    return encode_set


def _map_encoder(encode_key, encode_value, all_text):
    def encode_map(value, resolve):
        if all_text and isinstance(value, dict):
            try:
                text = "".join(value) + "".join(value.values())  # fails unless all of them are text: the fastest check
            except TypeError:
                text = "\0"
            if "\0" not in text:
                return ["map", [[key, value[key]] for key in sorted(value)]]
        if not isinstance(value, Mapping):
            raise BadValue(f"expected a map, got {type(value).__name__}")
        return map_wire({encode_key(key, resolve): encode_value(item, resolve) for key, item in value.items()})

    return encode_map


def _is_text(base):
    return base == "string" or (isinstance(base, dict) and base.keys() == {"type"} and base["type"] == "string")


def _string(value, resolve):
    if isinstance(value, str) and "\0" not in value:
        return value
    if isinstance(value, str):
        raise BadValue("text must not contain a null character")
    raise BadValue(f"expected text, got {type(value).__name__} {value!r}")


def _integer(value, resolve):
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise BadValue(f"expected a 64-bit integer, got {type(value).__name__} {value!r}")
    return value


def _real(value, resolve):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value - value != 0:
        raise BadValue(f"expected a finite number, got {type(value).__name__} {value!r}")
    return value


def _boolean(value, resolve):
    if not isinstance(value, bool):
        raise BadValue(f"expected true or false, got {type(value).__name__} {value!r}")
    return value


def _uuid(value, resolve):
    if isinstance(value, Ref):
        return ["uuid", resolve(value)]
    if isinstance(value, uuid.UUID):
        return ["uuid", str(value)]
    raise BadValue(f"expected a reference to a row, got {type(value).__name__} {value!r}")


_ATOMS = {"string": _string, "integer": _integer, "real": _real, "boolean": _boolean, "uuid": _uuid}
_LIMITS = {"string": "Length", "integer": "Integer", "real": "Real"}


def _one_of(atom, allowed):
    if atom not in allowed:
        raise BadValue(f"expected one of {', '.join(sorted(map(str, allowed)))}, got {atom!r}")
    return atom


def _within(atom, low, high):
    size = len(atom) if isinstance(atom, str) else atom
    if (low is not None and size < low) or (high is not None and size > high):
        raise BadValue(f"expected {'a length of ' if isinstance(atom, str) else ''}{low} to {high}, got {atom!r}")
    return atom
