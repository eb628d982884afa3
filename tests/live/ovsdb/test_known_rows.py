# SPDX-License-Identifier: Apache-2.0
"""Runs that ask for one network's rows by uuid, because its former rows are known."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Parent, Row, Scope, reconcile

from .network import DATABASE, OWNER, actions, changed, converge, network, rows, shared


class Asking:
    """A client that records what was selected."""

    def __init__(self, client) -> None:
        self._client, self.selects = client, []

    def __getattr__(self, name):
        return getattr(self._client, name)

    def start(self, database, operations):
        """Record, then select."""
        self.selects += [operation for operation in operations if operation["op"] == "select"]
        return self._client.start(database, operations)


def known(*former: Row) -> Scope:
    """Network B, which had these rows."""
    return Scope(networks=frozenset({"B"}), former=former)


def test_known_rows_need_no_search(northbound):
    converge(northbound, rows("A", "B", "C"))
    desired = [row for row in rows("B") if row.match is None]
    with northbound.client() as client:
        asking = Asking(client)
        outcome = reconcile(asking, DATABASE, desired, owner=OWNER, scope=known(*network("B")))
    assert not outcome.changed
    assert {select["where"][0][0] for select in asking.selects} == {"_uuid"}
    assert len(asking.selects) == len(network("B"))


@pytest.mark.parametrize(
    ("desired", "expected"),
    [
        (changed(rows("B"), "ACL", "B_acl", priority=5), ["update ACL B_acl"]),
        ([row for row in rows("B") if row.key != "B_a"], ["delete Logical_Switch_Port B_a"]),
        (shared(), []),
    ],
    ids=["column", "row that its switch holds", "nothing known"],
)
def test_change_of_one_network(northbound, desired, expected):
    converge(northbound, rows("A", "B"))
    other = {row["_uuid"][1] for row in northbound.rows("Logical_Switch") if row["name"] == "A_switch"}
    assert actions(converge(northbound, desired, scope=known())) == expected
    assert other <= {row["_uuid"][1] for row in northbound.rows("Logical_Switch")}


def test_removal_of_one_network(northbound):
    converge(northbound, rows("A"))
    before = northbound.dump()
    converge(northbound, rows("A", "B"))
    outcome = converge(northbound, shared(), scope=known(*network("B")))
    assert outcome.summary() == {"create": 0, "update": 0, "delete": len(network("B")), "foreign": 0}
    assert northbound.dump() == before


def test_creation_of_one_network(northbound):
    converge(northbound, rows("A"))
    outcome = converge(northbound, rows("B"), scope=known())
    assert outcome.summary()["create"] == len(network("B"))
    assert not converge(northbound, rows("A", "B")).changed


def test_unknown_rows_are_left_to_a_full_run(northbound):
    lost = Row("Logical_Router", "B_lost", {"name": "B_lost"}, "B")
    converge(northbound, [*rows("A", "B"), lost])
    assert not converge(northbound, rows("B"), scope=known()).changed
    assert actions(converge(northbound, rows("A", "B"))) == ["delete Logical_Router B_lost"]


def test_lost_mark_is_repaired(northbound):
    converge(northbound, rows("A", "B"))
    where = [["name", "==", "B_router"]]
    northbound.transact(
        {"op": "update", "table": "Logical_Router", "where": where, "row": {"external_ids": ["map", []]}}
    )
    assert actions(converge(northbound, rows("B"), scope=known())) == ["update Logical_Router B_router"]
    assert not converge(northbound, rows("A", "B")).changed


def test_foreign_member_and_foreign_former_row_stay(northbound):
    converge(northbound, rows("A", "B"))
    northbound.transact(
        {"op": "insert", "table": "Logical_Switch_Port", "row": {"name": "foreign"}, "uuid-name": "port"},
        {
            "op": "mutate",
            "table": "Logical_Switch",
            "where": [["name", "==", "B_switch"]],
            "mutations": [["ports", "insert", ["set", [["named-uuid", "port"]]]]],
        },
    )
    parent = Parent("Logical_Switch", "B_switch", "ports")
    never = Row("Logical_Switch_Port", "never", {"name": "never"}, "B", parent)
    assert not converge(northbound, rows("B"), scope=known(*network("B"), never)).changed
    assert {row["name"] for row in northbound.rows("Logical_Switch_Port", "name")} >= {"foreign"}
