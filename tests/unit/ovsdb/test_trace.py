# SPDX-License-Identifier: Apache-2.0
"""Digests of what a server replied: rows in any order, everything else as it is."""

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.trace import Trace

SELECTS = [{"op": "select", "table": "Interface", "where": [], "columns": ["name"]}] * 2


def digest(*results) -> str:
    trace = Trace()
    trace.sent(7, "transact", ["Open_vSwitch", *SELECTS])
    text = json.dumps({"id": 7, "result": list(results), "error": None}, separators=(",", ":"))
    trace.received(7, text)
    return trace.read()["replies"][0]


def rows(*names) -> dict:
    return {"rows": [{"name": name, "ports": ["set", [["uuid", "a"], ["uuid", "b"]]]} for name in names]}


def test_rows_count_in_any_order():
    # ovsdb-server's own order changes whenever a row is written, also in a column that was not asked for.
    assert digest(rows("a", "b", "c"), rows("d")) == digest(rows("c", "a", "b"), rows("d"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([rows("a", "b")], [rows("a", "c")]),
        ([rows("a", "b")], [rows("a", "b", "b")]),
        ([rows("a")], [rows()]),
        ([rows("a", "b"), rows("c")], [rows("a"), rows("b", "c")]),
        ([rows("a"), rows("b")], [rows("b"), rows("a")]),
        ([rows("a"), {"count": 1}], [rows("a"), {"count": 2}]),
        ([{}, rows("a")], [rows("a"), {}]),
        # Texts that look like the end of one row and the beginning of another.
        ([rows('x"},{"name":"y', "z")], [rows("x", 'y"},{"name":"z')]),
        ([rows("x]}", "y")], [rows("x", "]}y")]),
    ],
)
def test_everything_else_counts(one, other):
    assert digest(*one) != digest(*other)
    assert digest(*one) == digest(*one)
