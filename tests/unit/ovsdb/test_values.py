# SPDX-License-Identifier: Apache-2.0
"""Values to the wire and back; identities; what is rejected and how."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.identity import Identity
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.schema import Schema, UnknownName
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.values import (
    BadValue,
    Ref,
    Row,
    all_uuids,
    column_encoder,
    map_pairs,
    set_atoms,
    to_python,
    uuid_list,
    uuids,
)

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
REALS = st.floats(allow_nan=False, allow_infinity=False)
ATOMS = {"string": TEXT, "integer": INTEGERS, "real": REALS, "boolean": st.booleans()}
ONE, TWO = "00000000-0000-5000-8000-000000000001", "00000000-0000-5000-8000-000000000002"


def resolve(ref):
    """The uuid of a reference in these tests."""
    return {"one": ONE, "two": TWO}[ref.key]


def encode(type_, value):
    """The wire form of a value of a column of that type."""
    return column_encoder(type_)(value, resolve)


@pytest.mark.parametrize("kind", sorted(ATOMS))
@given(data=st.data())
def test_sets_round_trip(kind, data):
    values = data.draw(st.frozensets(ATOMS[kind], max_size=6))
    wire = encode({"key": kind, "min": 0, "max": "unlimited"}, values)
    assert frozenset(set_atoms(wire)) == values
    assert set_atoms(wire) == sorted(values)
    assert isinstance(wire, list) == (len(values) != 1)
    assert encode({"key": kind, "min": 0, "max": "unlimited"}, list(values) * 2) == wire


@pytest.mark.parametrize("key", ["string", "integer"])
@pytest.mark.parametrize("value", sorted(ATOMS))
@given(data=st.data())
def test_maps_round_trip(key, value, data):
    values = data.draw(st.dictionaries(ATOMS[key], ATOMS[value], max_size=6))
    wire = encode({"key": key, "value": value, "min": 0, "max": "unlimited"}, values)
    assert to_python(wire) == values
    assert wire[1] == sorted(wire[1], key=lambda pair: pair[0])


def test_references():
    many = {"key": {"type": "uuid", "refTable": "T"}, "min": 0, "max": "unlimited"}
    assert encode(many, {Ref("T", "two"), Ref("T", "one")}) == ["set", [["uuid", ONE], ["uuid", TWO]]]
    assert encode(many, Ref("T", "one")) == ["uuid", ONE]
    assert encode(many, ()) == ["set", []]
    assert encode({"key": "uuid"}, uuid.UUID(TWO)) == ["uuid", TWO]
    assert uuids(encode(many, [Ref("T", "one"), Ref("T", "two")])) == {ONE, TWO}
    queues = {"key": "integer", "value": {"type": "uuid", "refTable": "T"}, "min": 0, "max": "unlimited"}
    wire = encode(queues, {0: Ref("T", "one"), 1: Ref("T", "two")})
    assert all_uuids(wire) == {ONE, TWO}
    assert to_python(wire, {ONE: "T/one"}) == {0: "T/one", 1: TWO}


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        ("string", 5, "expected text, got int 5"),
        ("string", "a\0", "null character"),
        ("integer", True, "expected a 64-bit integer, got bool True"),
        ("integer", "5", "expected a 64-bit integer, got str '5'"),
        ("integer", 1 << 63, "expected a 64-bit integer"),
        ("real", float("inf"), "expected a finite number"),
        ("boolean", "true", "expected true or false"),
        ({"key": "uuid"}, "x", "expected a reference to a row"),
        ({"key": {"type": "string", "enum": ["set", ["a", "b"]]}}, "c", "expected one of a, b, got 'c'"),
        ({"key": {"type": "integer", "minInteger": 0, "maxInteger": 7}}, 8, "expected 0 to 7, got 8"),
        ({"key": "string", "min": 1, "max": 2}, [], "expected 1 to 2 values, got 0"),
        ({"key": "string", "min": 0, "max": 1}, ["a", "b"], "expected 0 to 1 values, got 2"),
        ({"key": "string", "value": "string", "min": 0, "max": "unlimited"}, ["a"], "expected a map, got list"),
        ({"key": "string", "value": "string", "min": 0, "max": "unlimited"}, {"a": 5}, "expected text, got int 5"),
        ({"key": "string", "value": "string", "min": 0, "max": "unlimited"}, {"a": "\0"}, "null character"),
    ],
)
def test_bad_values(type_, value, message):
    with pytest.raises(BadValue, match=message):
        encode(type_, value)


def test_optional():
    optional = {"key": "integer", "min": 0, "max": 1}
    assert encode(optional, None) == ["set", []]
    assert encode(optional, 7) == 7


TINY = Schema(
    {
        "name": "Tiny",
        "version": "1.2.3",
        "tables": {
            "Marked": {"isRoot": True, "columns": {"external_ids": {"type": {"key": "string", "value": "string"}}}},
            "Bare": {"isRoot": True, "columns": {"name": {"type": "string"}}},
        },
    }
)


def test_unknown_names_report_the_schema_version():
    with pytest.raises(UnknownName, match=r"Tiny schema 1\.2\.3 on this host has no table Nonsense"):
        TINY.table("Nonsense")
    with pytest.raises(UnknownName, match=r"Tiny schema 1\.2\.3 on this host has no column x in table Bare"):
        TINY.column(TINY.table("Bare"), "x")


@given(TEXT, TEXT, TEXT, TEXT)
def test_uuids_are_fixed_and_distinct(owner, table, key, network):
    identity = Identity(owner)
    for name in ("Marked", "Bare"):
        row = Row(name, key, {}, network)
        text = identity.uuid_of(TINY.table(name), row)
        assert str(uuid.UUID(text)) == text
        assert uuid.UUID(text).variant == uuid.RFC_4122
        assert text == Identity(owner).uuid_of(TINY.table(name), row)
        assert text != Identity(f"{owner}x").uuid_of(TINY.table(name), row)
        assert text != identity.uuid_of(TINY.table(name), Row(name, f"{key}x", {}, network))


def test_bare_rows_carry_the_mark_in_their_uuid():
    identity, table = Identity("lab"), TINY.table("Bare")
    text = identity.uuid_of(table, Row("Bare", "k", {}, "net"))
    assert identity.made("Bare", text)
    assert identity.made_for(text, "net")
    assert not identity.made_for(text, "other")
    assert not Identity("other").made("Bare", text)
    assert not identity.made("Bare", str(uuid.uuid4()))
    assert not identity.made("Marked", text)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (["set", []], []),
        (["uuid", "a"], ["a"]),
        (["set", [["uuid", "b"], ["uuid", "a"]]], ["b", "a"]),
    ],
)
def test_uuids_of_a_set_are_read_in_each_form_that_the_wire_has(wire, expected):
    assert uuid_list(wire) == expected
    assert uuids(wire) == set(expected)


def test_a_map_is_read_as_its_pairs():
    assert map_pairs(["map", [["a", "1"], ["b", ["uuid", "2"]]]]) == {"a": "1", "b": ["uuid", "2"]}
