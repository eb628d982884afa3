# SPDX-License-Identifier: Apache-2.0
"""A monitor on a real server: which tables changed, and what happens when the server goes."""

from __future__ import annotations

import select

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.errors import OvsdbError, Unreachable
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.monitor import Monitor
from tests.live.conftest import START_TIMEOUT, stop

DATABASE = "OVN_Northbound"
TABLES = {
    "Logical_Switch": {"columns": ["name"]},
    "Logical_Router": {"columns": ["name"], "where": [["name", "==", "wanted"]]},
}


def insert(table: str, name: str) -> dict:
    return {"op": "insert", "table": table, "row": {"name": name}}


def next_change(monitor: Monitor) -> set[str]:
    """What changed, once something has."""
    while True:
        assert select.select([monitor], [], [], START_TIMEOUT)[0], "nothing was reported"
        found = monitor.changed()
        if found:
            return found


@pytest.fixture
def monitor(northbound):
    made = Monitor(northbound.remote, DATABASE, TABLES)
    yield made
    made.close()


def test_only_tables_that_changed_are_reported_and_only_rows_that_match(northbound, monitor):
    northbound.transact(insert("Logical_Switch", "one"))
    assert next_change(monitor) == {"Logical_Switch"}
    assert monitor.changed() == set()
    northbound.transact(insert("Logical_Router", "other"))
    northbound.transact(insert("Logical_Router", "wanted"))
    assert next_change(monitor) == {"Logical_Router"}
    northbound.transact(insert("Logical_Router", "another"), insert("Logical_Switch", "two"))
    assert next_change(monitor) == {"Logical_Switch"}


def test_a_server_that_goes_is_an_error(northbound, monitor):
    stop(northbound.process)
    with pytest.raises(Unreachable, match=r"closed|lost"):
        next_change(monitor)


def test_a_table_that_there_is_not_is_an_error(northbound):
    monitor = Monitor(northbound.remote, DATABASE, {"Nonsense": {"columns": []}})
    with pytest.raises(OvsdbError, match="no table named Nonsense"):
        next_change(monitor)
    monitor.close()
