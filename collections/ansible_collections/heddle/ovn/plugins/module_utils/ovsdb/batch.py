# SPDX-License-Identifier: Apache-2.0
"""Encodes a column of many rows at once: the same result as `column_encoder` value by value, in a third of the time.

A batch function may fail with any of `REFUSALS` without identifying the wrong value, and may reject unusual but
valid values; the caller then encodes value by value.
"""

from __future__ import annotations

from itertools import chain

from .values import BadValue, set_atoms

REFUSALS = (BadValue, TypeError, AttributeError)
_COLLECTIONS = frozenset((str, set, frozenset, list, tuple))
_INTEGER, _BOOLEAN = frozenset((int,)), frozenset((bool,))
_INFINITE = float("inf")


def batch_encoder(schema, encode):
    """A function `(values, resolve) -> wire values` for the type of a column; `encode` is for one value of it."""
    schema = schema if isinstance(schema, dict) else {"key": schema}
    check = _atom_check(schema["key"])
    if check and "value" in schema:
        check_value = _atom_check(schema["value"])
        if check_value:
            return _map_encoder(check, check_value)
    elif check:
        least, most = schema.get("min", 1), schema.get("max", 1)
        if (least, most) == (1, 1):
            return _plain_encoder(check)
        # A set takes 1 and True for one value, so only text is checked after it was put into sets.
        if _base(schema["key"])["type"] == "string":
            return _set_encoder(check, least, most)
    return lambda values, resolve: [encode(value, resolve) for value in values]


def _base(base):
    return base if isinstance(base, dict) else {"type": base}


def _atom_check(base):
    """Return a check of all atoms of a base type that raises one of `REFUSALS` for a wrong one; None without one."""
    base = _base(base)
    make = _CHECKS.get(base["type"])
    return make(base) if make else None


def _text_check(base):
    if "enum" in base:
        return _word_check(frozenset(set_atoms(base["enum"])))
    if not base.keys() <= {"type", "minLength", "maxLength"}:
        return None
    low, high = base.get("minLength", 0), base.get("maxLength", _INFINITE)
    if (low, high) == (0, _INFINITE):
        return _check_text

    def check_limited(atoms):
        atoms = list(atoms)
        _check_text(atoms)
        _check_limits(map(len, atoms), low, high)

    return check_limited


def _word_check(allowed):
    def check_words(atoms):
        if not allowed.issuperset(atoms):
            raise BadValue(f"expected some of {', '.join(sorted(allowed))}")

    return check_words


def _integer_check(base):
    if not base.keys() <= {"type", "minInteger", "maxInteger"}:
        return None
    low, high = base.get("minInteger", -(1 << 63)), base.get("maxInteger", (1 << 63) - 1)

    def check_integers(atoms):
        atoms = list(atoms)
        # `bool` is another type, although its values are integers.
        if not _INTEGER.issuperset(map(type, atoms)):
            raise BadValue("expected integers")
        _check_limits(atoms, low, high)

    return check_integers


def _boolean_check(base):
    return _check_booleans if base.keys() == {"type"} else None


def _check_booleans(atoms):
    if not _BOOLEAN.issuperset(map(type, atoms)):
        raise BadValue("expected true or false")


_CHECKS = {"string": _text_check, "integer": _integer_check, "boolean": _boolean_check}


def _check_text(atoms):
    # `join` fails unless all are text: the fastest check.
    if "\0" in "".join(atoms):
        raise BadValue("text must not contain a null character")


def _check_limits(numbers, low, high):
    numbers = set(numbers)
    if numbers and not low <= min(numbers) <= max(numbers) <= high:
        raise BadValue(f"expected {low} to {high}")


def _plain_encoder(check):
    def encode_plain(values, _resolve):
        check(values)
        return values

    return encode_plain


def _set_encoder(check, least, most):
    most = _INFINITE if most == "unlimited" else most

    def encode_sets(values, _resolve):
        if not _COLLECTIONS.issuperset(map(type, values)):
            raise BadValue("expected sets")
        sets = [[value] if isinstance(value, str) else sorted(set(value)) for value in values]
        check(chain.from_iterable(sets))
        if not least <= min(map(len, sets)) <= max(map(len, sets)) <= most:
            raise BadValue(f"expected {least} to {most} values")
        return [atoms[0] if len(atoms) == 1 else ["set", atoms] for atoms in sets]

    return encode_sets


def _map_encoder(check_key, check_value):
    def encode_maps(values, _resolve):
        check_key(chain.from_iterable(values))
        check_value(chain.from_iterable(value.values() for value in values))
        return [["map", [[key, value[key]] for key in sorted(value)]] for value in values]

    return encode_maps
