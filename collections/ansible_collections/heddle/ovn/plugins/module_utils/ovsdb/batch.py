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


def batch_encoder(schema, encode):
    """A function `(values, resolve) -> wire values` for the type of a column; `encode` is for one value of it."""
    schema = schema if isinstance(schema, dict) else {"key": schema}
    check = _text_check(schema["key"])
    if check and "value" in schema:
        check_value = _text_check(schema["value"])
        if check_value:
            return _map_encoder(check, check_value)
    elif check:
        least, most = schema.get("min", 1), schema.get("max", 1)
        return _text_encoder(check) if (least, most) == (1, 1) else _set_encoder(check, least, most)
    return lambda values, resolve: [encode(value, resolve) for value in values]


def _text_check(base):
    """Return a check that raises one of `REFUSALS` for a wrong atom; None for a type with limits or not text."""
    base = base if isinstance(base, dict) else {"type": base}
    if base["type"] != "string" or not base.keys() <= {"type", "enum"}:
        return None
    if "enum" not in base:
        return _check_text
    allowed = frozenset(set_atoms(base["enum"]))

    def check_words(atoms):
        if not allowed.issuperset(atoms):
            raise BadValue(f"expected some of {', '.join(sorted(allowed))}")

    return check_words


def _check_text(atoms):
    # `join` fails unless all are text: the fastest check.
    if "\0" in "".join(atoms):
        raise BadValue("text must not contain a null character")


def _text_encoder(check):
    def encode_texts(values, _resolve):
        check(values)
        return values

    return encode_texts


def _set_encoder(check, least, most):
    most = float("inf") if most == "unlimited" else most

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
