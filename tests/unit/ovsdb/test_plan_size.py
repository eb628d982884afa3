# SPDX-License-Identifier: Apache-2.0
"""How networks are distributed over transactions, and what a run computes once or not at all."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, render
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.diff import Described
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.schema import schema_of
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.transaction import (
    NETWORKS_PER_TRANSACTION,
    PORTS_TOGETHER,
    ROWS_PER_TRANSACTION,
    TransactionPlan,
    Unit,
)
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Ref

RAW = {
    "name": "Tiny",
    "version": "1.2.3",
    "tables": {"Bare": {"isRoot": True, "columns": {"name": {"type": "string"}}}},
}


def sizes(rows: list[int], *arguments) -> list[int]:
    """Return how many networks each transaction has, for networks with that many rows."""
    plan = TransactionPlan.__new__(TransactionPlan)
    plan._units = {}
    for number, count in enumerate(rows):
        unit = plan._unit(f"network{number}")
        unit.inserts = [None] * (count // 2)
        unit.writes = [None] * (count - count // 2)
    return [len(chunk) for chunk in plan.chunks(*arguments)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([1] * (NETWORKS_PER_TRANSACTION + 1), [NETWORKS_PER_TRANSACTION, 1]),
        ([ROWS_PER_TRANSACTION // 2] * 3, [2, 1]),
        ([ROWS_PER_TRANSACTION // 2 + 1] * 2, [1, 1]),
        ([1, 10 * ROWS_PER_TRANSACTION, 1], [1, 1, 1]),
    ],
)
def test_networks_with_many_rows_are_written_alone(rows, expected):
    assert sizes(rows) == expected


def test_ports_of_many_networks_are_written_together():
    assert sizes([ROWS_PER_TRANSACTION] * 201, *PORTS_TOGETHER) == [200, 1]


def test_one_network_per_transaction():
    assert sizes([1, 1], 1) == [1, 1]


def test_rows_of_a_unit():
    unit = Unit({"red"})
    unit.inserts, unit.writes = [None], [None, None]
    assert unit.rows == 3


def test_created_values_are_described_when_they_are_read():
    columns = {"name": "a", "ports": {Ref("Port", "b"), Ref("Port", "a")}, "options": {"k": "v"}}
    described = {"name": "a", "ports": ["Port/a", "Port/b"], "options": {"k": "v"}}
    found = Described(columns)
    assert found == described
    assert (len(found), list(found), repr(found)) == (3, list(described), repr(described))
    assert render(found) == render(described)
    assert Change("D", "create", "T", "n", "", {}, found) == Change("D", "create", "T", "n", "", {}, described)


def test_a_schema_is_made_once_until_it_changes():
    first = schema_of(RAW)
    assert schema_of(copy.deepcopy(RAW)) is first
    other = copy.deepcopy(RAW)
    other["tables"]["Bare"]["columns"]["more"] = {"type": "string"}
    changed = schema_of(other)
    assert changed is not first
    assert "more" in changed.tables["Bare"].columns
    assert "more" not in schema_of(RAW).tables["Bare"].columns
