# SPDX-License-Identifier: Apache-2.0
"""The engine against a real Northbound database: what it writes, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import InvalidRows
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Duplicate, WriteRefused
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import (
    Keys,
    Parent,
    Ref,
    Row,
    Scope,
    reconcile,
)

from .network import (
    DATABASE,
    EVERYTHING,
    OWNER,
    Counting,
    Dying,
    Killed,
    actions,
    changed,
    converge,
    network,
    rows,
    shared,
)

NAMES = ("A", "B", "C", "D", "E", "F", "G")


def test_create_then_nothing(northbound):
    desired = rows(*NAMES)
    outcome = converge(northbound, desired)
    assert outcome.summary() == {"create": len(desired), "update": 0, "delete": 0, "foreign": 0}
    assert {table: len(found) for table, found in northbound.dump().items()} == {
        "Copp": 1, "NB_Global": 1, "ACL": 7, "Load_Balancer": 7, "Logical_Router": 7, "Logical_Router_Port": 7,
        "Logical_Router_Static_Route": 7, "Logical_Switch": 7, "Logical_Switch_Port": 14, "Static_MAC_Binding": 7,
    }  # fmt: skip
    before = northbound.dump()
    with northbound.client() as client:
        counting = Counting(client)
        again = reconcile(counting, DATABASE, desired, owner=OWNER, scope=EVERYTHING)
    assert (again.changed, counting.writes, northbound.dump()) == (False, 0, before)


def test_references_are_resolved(northbound):
    converge(northbound, rows("A"))
    (router,) = northbound.rows("Logical_Router")
    (copp,) = northbound.rows("Copp")
    (port,) = northbound.rows("Logical_Router_Port")
    assert router["copp"] == copp["_uuid"]
    assert router["ports"] == port["_uuid"]
    assert port["external_ids"] == [
        "map",
        [["heddle/key", "A_lrp"], ["heddle/network", "A"], ["heddle/owner", OWNER], ["network", "A"]],
    ]


def test_update_of_one_column(northbound):
    converge(northbound, rows("A", "B"))
    before = northbound.dump()
    desired = changed(rows("A", "B"), "ACL", "A_acl", priority=7, action="drop")
    outcome = converge(northbound, desired)
    assert actions(outcome) == ["update ACL A_acl"]
    (change,) = outcome.changes
    assert change.before == {"priority": 1001, "action": "allow-related"}
    assert change.after == {"priority": 7, "action": "drop"}
    after = northbound.dump()
    assert [row["priority"] for row in after.pop("ACL")] != [row["priority"] for row in before.pop("ACL")]
    assert after == before


def test_check_mode_reports_the_same_changes_and_writes_nothing(northbound):
    converge(northbound, rows("A", "B"))
    before = northbound.dump()
    desired = changed(rows("A", "C"), "ACL", "A_acl", priority=7)
    planned = converge(northbound, desired, write=False)
    assert northbound.dump() == before
    done = converge(northbound, desired)
    assert actions(planned) == actions(done)
    assert sorted(map(str, planned.diff())) == sorted(map(str, done.diff()))


def test_check_mode_on_a_read_only_client_cannot_write(northbound):
    with northbound.client(read_only=True) as client, pytest.raises(WriteRefused):
        reconcile(client, DATABASE, rows("A"), owner=OWNER)
    assert northbound.dump() == {}


def test_removal_of_everything_leaves_foreign_rows(northbound):
    northbound.transact(
        {"op": "insert", "table": "Logical_Switch", "row": {"name": "foreign"}},
        {"op": "insert", "table": "NB_Global", "row": {"options": ["map", [["other", "1"]]]}},
    )
    before = northbound.dump()
    converge(northbound, rows(*NAMES))
    outcome = converge(northbound, [Row("NB_Global", "global", {"options": Keys({"mac_prefix": None})}, match={})])
    assert outcome.summary()["delete"] == len(rows(*NAMES)) - 1
    assert northbound.dump() == before


def test_removed_network_is_reported_row_by_row(northbound):
    converge(northbound, rows("A", "B"))
    outcome = converge(northbound, rows("A"))
    assert actions(outcome) == sorted(f"delete {row.table} {_shown(row)}" for row in network("B"))
    assert len(northbound.rows("Logical_Switch")) == 1


def _shown(row):
    return row.columns.get("name") or {"Static_MAC_Binding": row.columns.get("logical_port")}.get(row.table, row.key)


def test_foreign_rows_stay_and_are_listed(northbound):
    northbound.transact(
        {"op": "insert", "table": "Logical_Switch", "row": {"name": "foreign", "ports": ["named-uuid", "port"]}},
        {"op": "insert", "table": "Logical_Switch_Port", "row": {"name": "foreign_port"}, "uuid-name": "port"},
    )
    converge(northbound, rows("A"), owner="another-owner", scope=None)
    before = northbound.dump()
    outcome = converge(northbound, shared()[:0], report_foreign=True)
    assert not outcome.changed
    found = [(item.kind, item.name) for item in outcome.foreign if item.kind.startswith("Logical")]
    assert found == [("Logical_Switch", "foreign"), ("Logical_Switch_Port", "foreign_port")]
    assert northbound.dump() == before


def test_foreign_members_stay(northbound):
    converge(northbound, rows("A"))
    northbound.transact(
        {"op": "insert", "table": "Logical_Switch_Port", "row": {"name": "foreign"}, "uuid-name": "port"},
        {
            "op": "mutate",
            "table": "Logical_Switch",
            "where": [],
            "mutations": [["ports", "insert", ["set", [["named-uuid", "port"]]]]],
        },
    )
    assert not converge(northbound, rows("A")).changed
    fewer = [row for row in rows("A") if row.key != "A_a"]
    assert actions(converge(northbound, fewer)) == ["delete Logical_Switch_Port A_a"]
    assert [row["name"] for row in northbound.rows("Logical_Switch_Port", "name")] != []
    assert {row["name"] for row in northbound.rows("Logical_Switch_Port", "name")} == {"foreign", "A_r"}


def test_members_by_reference(northbound):
    group = Row("Port_Group", "pg", {"name": "pg", "ports": {Ref("Logical_Switch_Port", f"{name}_a") for name in "AB"}})
    desired = [*rows("A", "B"), group]
    converge(northbound, desired)
    (found,) = northbound.rows("Port_Group", "ports")
    assert len(found["ports"][1]) == 2
    assert not converge(northbound, desired).changed
    smaller = [*rows("A", "B"), replace(group, columns={**group.columns, "ports": {Ref("Logical_Switch_Port", "A_a")}})]
    (change,) = converge(northbound, smaller).changes
    assert (change.before, change.after) == ({"ports": ["Logical_Switch_Port/B_a"]}, {"ports": []})
    assert len(northbound.rows("Logical_Switch_Port")) == 4


def test_member_moves_to_another_parent(northbound):
    converge(northbound, rows("A"))
    (before,) = [row["_uuid"] for row in northbound.rows("Logical_Switch_Port", "name") if row["name"] == "A_a"]
    second = Row("Logical_Switch", "A_second", {"name": "A_second"}, "A")
    parent = Parent("Logical_Switch", "A_second", "ports")
    moved = [replace(row, parent=parent) if row.key == "A_a" else row for row in rows("A")]
    converge(northbound, [*moved, second])
    ports = {row["name"]: row["ports"] for row in northbound.rows("Logical_Switch", "name", "ports")}
    assert ports["A_second"] == before
    assert ports["A_switch"] != before
    assert not converge(northbound, [*moved, second]).changed


def test_scope_restricts_to_networks(northbound):
    converge(northbound, rows("A", "B", "C"))
    only = Scope(networks=frozenset({"B"}))
    desired = changed(changed(rows("A", "B"), "ACL", "A_acl", priority=1), "ACL", "B_acl", priority=2)
    assert actions(converge(northbound, desired, scope=only)) == ["update ACL B_acl"]
    removed = converge(northbound, rows("A", "C"), scope=only)
    assert {change.network for change in removed.changes} == {"B"}
    assert len(removed.changes) == len(network("B"))
    assert converge(northbound, rows("A", "B", "C"), scope=only).summary()["create"] == len(network("B"))
    assert not converge(northbound, rows("A", "B", "C")).changed


def test_scope_restricts_to_tables(northbound):
    converge(northbound, rows("A"))
    assert not converge(northbound, [], scope=Scope(tables=frozenset({"DNS"}))).changed
    outcome = converge(northbound, [], scope=Scope(tables=frozenset({"ACL"})))
    assert actions(outcome) == ["delete ACL A_acl"]
    assert northbound.rows("ACL") == []
    assert len(northbound.rows("Logical_Switch")) == 1


def test_lost_mark_is_repaired(northbound):
    converge(northbound, rows("A"))
    empty = {"external_ids": ["map", []]}
    northbound.transact({"op": "update", "table": "Logical_Router", "where": [], "row": empty})
    outcome = converge(northbound, rows("A"))
    assert actions(outcome) == ["update Logical_Router A_router"]
    assert not converge(northbound, rows("A")).changed


def test_row_with_another_uuid_is_found_by_its_mark(northbound):
    marks = [["heddle/key", "A_switch"], ["heddle/network", "A"], ["heddle/owner", OWNER]]
    northbound.transact(
        {"op": "insert", "table": "Logical_Switch", "row": {"name": "old", "external_ids": ["map", marks]}}
    )
    converge(northbound, rows("A"))
    (switch,) = northbound.rows("Logical_Switch")
    assert switch["name"] == "A_switch"
    assert len(switch["ports"][1]) == 2
    assert not converge(northbound, rows("A")).changed


def test_name_taken_by_a_foreign_row(northbound):
    northbound.transact({"op": "insert", "table": "Copp", "row": {"name": "heddle"}})
    with pytest.raises(Duplicate, match="identical values"):
        converge(northbound, rows("A"))
    assert list(northbound.dump()) == ["Copp"]


def test_interrupted_run_is_continued(northbound):
    desired = rows(*(f"n{number}" for number in range(23)))
    for survives in (0, 1, 3):
        with northbound.client() as client, pytest.raises(Killed):
            reconcile(Dying(client, survives), DATABASE, desired, owner=OWNER, scope=EVERYTHING)
    switches = len(northbound.rows("Logical_Switch"))
    assert 0 < switches < 23
    assert switches * 2 == len(northbound.rows("Logical_Switch_Port"))
    outcome = converge(northbound, desired)
    assert 0 < outcome.summary()["create"] < len(desired)
    assert not converge(northbound, desired).changed
    assert len(northbound.rows("Logical_Switch")) == 23


def test_all_errors_are_reported_before_any_write(northbound):
    desired = [
        *rows("A"),
        Row("Logical_Switch", "x", {"name": 5, "nonsense": 1}),
        Row("Nonsense", "y", {}),
        Row("ACL", "z", {"priority": 1, "direction": "sideways", "match": "", "action": "drop"}),
        Row("Logical_Router", "r", {"copp": Ref("Copp", "missing")}),
        Row("Logical_Router", "r", {}),
    ]
    with pytest.raises(InvalidRows) as caught:
        converge(northbound, desired)
    text = str(caught.value)
    schema = northbound.client().get_schema(DATABASE)["version"]
    for part in (
        "Logical_Switch/x: name: expected text, got int 5",
        f"Logical_Switch/x: OVN_Northbound schema {schema} on this host has no column nonsense in table Logical_Switch",
        f"Nonsense/y: OVN_Northbound schema {schema} on this host has no table Nonsense",
        "ACL/z: direction: expected one of from-lport, to-lport, got 'sideways'",
        "ACL/z has no parent",
        "Logical_Router/r: copp: refers to Copp/missing",
        "duplicate row Logical_Router/r",
    ):
        assert part in text
    assert northbound.dump() == {}
