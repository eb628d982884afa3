# SPDX-License-Identifier: Apache-2.0
"""Encoding a column at once gives what encoding value by value gives, or refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.batch import REFUSALS, batch_encoder
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.values import BadValue, column_encoder

WORDS = {"type": "string", "enum": ["set", ["dst-ip", "src-ip"]]}
TYPES = {
    "text": "string",
    "text in full": {"key": "string"},
    "word": {"key": WORDS},
    "optional text": {"key": "string", "min": 0, "max": 1},
    "optional word": {"key": WORDS, "min": 0, "max": 1},
    "texts": {"key": "string", "min": 0, "max": "unlimited"},
    "two texts": {"key": "string", "min": 2, "max": 2},
    "short text": {"key": {"type": "string", "maxLength": 3}},
    "number": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 9}},
    "switch": "boolean",
    "map": {"key": "string", "value": "string", "min": 0, "max": "unlimited"},
    "map of words": {"key": "string", "value": WORDS, "min": 0, "max": "unlimited"},
    "map of numbers": {"key": "string", "value": "integer", "min": 0, "max": "unlimited"},
}
atoms = st.sampled_from(["", "a", "long text", "dst-ip", "src-ip", "with \0 in it", 0, 5, 77, True, 1.5, None, b"x"])
collections = st.one_of(
    st.sets(atoms, max_size=3), st.lists(atoms, max_size=3), st.tuples(atoms, atoms), st.dictionaries(atoms, atoms)
)


@pytest.mark.parametrize("schema", TYPES.values(), ids=TYPES.keys())
@given(values=st.lists(st.one_of(atoms, collections), min_size=1, max_size=4))
def test_batch_equals_single_operations(schema, values):
    encode = column_encoder(schema)
    try:
        one_by_one = [encode(value, None) for value in values]
    except (BadValue, TypeError):
        one_by_one = None
    try:
        at_once = list(batch_encoder(schema, encode)(values, None))
    except REFUSALS:
        return
    assert at_once == one_by_one
    assert list(map(type, at_once)) == list(map(type, one_by_one))


@pytest.mark.parametrize(
    ("kind", "values", "wires"),
    [
        ("text", ["a", "b"], ["a", "b"]),
        ("word", ["dst-ip"], ["dst-ip"]),
        ("optional text", ["a", set(), {"b"}], ["a", ["set", []], "b"]),
        ("texts", [["b", "a", "b"], {"c"}], [["set", ["a", "b"]], "c"]),
        ("map", [{"b": "2", "a": "1"}, {}], [["map", [["a", "1"], ["b", "2"]]], ["map", []]]),
        ("number", [1, 9], [1, 9]),
    ],
)
def test_usual_values_are_not_refused(kind, values, wires):
    assert list(batch_encoder(TYPES[kind], column_encoder(TYPES[kind]))(values, None)) == wires
