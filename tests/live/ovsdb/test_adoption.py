# SPDX-License-Identifier: Apache-2.0
"""Rows that others made: found by column values, managed by the keys given, never deleted."""

from __future__ import annotations

import re

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import InvalidRows
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Keys, Parent, Ref, Row, Scope

from .network import actions, converge

BRIDGE = Row("Bridge", "br-int", {"fail_mode": "secure"}, match={"name": "br-int"})


def root(**external_ids) -> Row:
    """The only row of its table; just these keys are ours."""
    return Row("Open_vSwitch", "root", {"external_ids": Keys(external_ids)}, match={})


def port(name: str) -> list[Row]:
    """A port on br-int with its interface."""
    identifiers = Keys({"iface-id": f"ns_{name}"})
    return [
        Row("Port", name, {"name": name}, "A", Parent("Bridge", "br-int", "ports")),
        Row("Interface", name, {"name": name, "external_ids": identifiers}, "A", Parent("Port", name, "interfaces")),
    ]


@pytest.fixture
def host(vswitch):
    """A database as ovs-ctl and an administrator leave it: br-int with its own port, a setting, a mark of ovn."""
    insert = {"op": "insert"}
    vswitch.transact(
        {
            **insert,
            "table": "Open_vSwitch",
            "row": {"bridges": ["named-uuid", "bridge"], "external_ids": ["map", [["system-id", "host"]]]},
        },
        {
            **insert,
            "table": "Bridge",
            "uuid-name": "bridge",
            "row": {
                "name": "br-int",
                "ports": ["named-uuid", "port"],
                "external_ids": ["map", [["ct-zone-x", "1"]]],
            },
        },
        {
            **insert,
            "table": "Port",
            "uuid-name": "port",
            "row": {"name": "br-int", "interfaces": ["named-uuid", "interface"]},
        },
        {**insert, "table": "Interface", "uuid-name": "interface", "row": {"name": "br-int", "type": "internal"}},
    )
    return vswitch


def test_singleton_by_keys(host):
    outcome = converge(host, [root(**{"ovn-encap-type": "geneve", "system-id": "host"})])
    (change,) = outcome.changes
    assert (change.action, change.before, change.after) == (
        "update",
        {"external_ids": {}},
        {"external_ids": {"ovn-encap-type": "geneve"}},
    )
    expected = [["ovn-encap-type", "geneve"], ["system-id", "host"]]
    assert host.rows("Open_vSwitch")[0]["external_ids"] == ["map", expected]
    assert not converge(host, [root(**{"ovn-encap-type": "geneve", "system-id": "host"})]).changed
    (change,) = converge(host, [root(**{"ovn-encap-type": "vxlan", "gone": None})]).changes
    assert change.before == {"external_ids": {"ovn-encap-type": "geneve"}}
    converge(host, [root(**{"ovn-encap-type": None})])
    assert host.rows("Open_vSwitch")[0]["external_ids"] == ["map", [["system-id", "host"]]]


def test_ports_on_an_adopted_bridge(host):
    before = host.dump()
    desired = [BRIDGE, *port("p1"), *port("p2")]
    outcome = converge(host, desired)
    assert actions(outcome) == [
        "create Interface p1", "create Interface p2", "create Port p1", "create Port p2", "update Bridge br-int",
    ]  # fmt: skip
    assert not converge(host, desired).changed
    assert converge(host, [BRIDGE, *port("p1")]).summary()["delete"] == 2
    assert [row["name"] for row in host.rows("Port", "name") if row["name"] == "br-int"] == ["br-int"]
    assert converge(host, []).summary() == {"create": 0, "update": 0, "delete": 2, "foreign": 0}
    bridge = {**before["Bridge"][0], "fail_mode": "secure"}
    assert host.dump() == {**before, "Bridge": [bridge]}


def test_purge_finds_a_holder_that_is_not_desired(host):
    converge(host, [BRIDGE, *port("p1")])
    outcome = converge(host, [], scope=Scope(tables=frozenset({"Port", "Interface"})))
    assert actions(outcome) == ["delete Interface p1", "delete Port p1"]
    assert len(host.rows("Port")) == 1


def test_keys_of_daemons_are_left_alone(host):
    desired = [BRIDGE, *port("p1")]
    full = [Row("Interface", "p1", {"name": "p1", "external_ids": {"a": "1", "b": "2"}}, "A", desired[2].parent)]
    converge(host, [*desired[:2], *full])
    host.transact(
        {
            "op": "mutate",
            "table": "Interface",
            "where": [["name", "==", "p1"]],
            "mutations": [["external_ids", "insert", ["map", [["ovn-installed", "true"], ["stale", "1"]]]]],
        }
    )
    (change,) = converge(host, [*desired[:2], *full]).changes
    assert (change.before, change.after) == ({"external_ids": {"stale": "1"}}, {"external_ids": {}})
    (ids,) = [dict(row["external_ids"][1]) for row in host.rows("Interface") if row["name"] == "p1"]
    assert {"a", "b", "ovn-installed", "heddle/owner"} <= ids.keys()
    assert not converge(host, [*desired[:2], *full]).changed


def test_immutable_column(host):
    converge(host, [BRIDGE, *port("p1")])
    renamed = [Row("Port", "p1", {"name": "p9"}, "A", Parent("Bridge", "br-int", "ports")), port("p1")[1]]
    ((network, reason),) = converge(host, [BRIDGE, *renamed]).refused
    assert network == "A"
    assert re.search(r"Port/p1: name cannot be changed .*'p1', wanted 'p9'", reason)


def test_missing_row_without_parent_is_not_created(vswitch):
    with pytest.raises(InvalidRows, match=r"Bridge/br-int: no row matches .*br-int.*, and it has no parent"):
        converge(vswitch, [BRIDGE])


def test_missing_rows_are_created_from_the_match(vswitch):
    bridge = Row(
        "Bridge", "br-ex", {"fail_mode": "standalone"}, "", Parent("Open_vSwitch", "root", "bridges"), {"name": "br-ex"}
    )
    desired = [root(**{"system-id": "x"}), bridge]
    assert converge(vswitch, desired).summary()["create"] == 2
    assert not converge(vswitch, desired).changed
    assert vswitch.rows("Bridge")[0]["name"] == "br-ex"
    converge(vswitch, [])
    assert vswitch.dump() == {}


def test_ambiguous_match(northbound):
    insert = {"op": "insert", "table": "Logical_Switch", "row": {"name": "twin"}}
    northbound.transact(insert, insert)
    with pytest.raises(InvalidRows, match="2 rows match"):
        converge(northbound, [Row("Logical_Switch", "twin", {}, match={"name": "twin"})])


def test_rows_without_marks_belong_to_their_holder(southbound):
    def chassis(name, *addresses):
        encaps = [Row("Encap", f"{name}-{ip}", {"type": "geneve", "ip": ip, "chassis_name": name}) for ip in addresses]
        columns = {
            "name": name,
            "hostname": name,
            "other_config": {"is-remote": "true"},
            "encaps": {Ref("Encap", row.key) for row in encaps},
        }
        return [Row("Chassis", name, columns), *encaps]

    scope = Scope(tables=frozenset({"Chassis", "Encap"}))
    desired = [*chassis("n1", "192.0.2.1"), *chassis("n2", "192.0.2.2", "2001:db8::2")]
    southbound.transact(
        {"op": "insert", "table": "Chassis", "row": {"name": "own", "encaps": ["named-uuid", "encap"]}},
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": {"type": "geneve", "ip": "192.0.2.9"}},
    )
    before = southbound.dump()
    assert converge(southbound, desired, scope=scope).summary()["create"] == 5
    outcome = converge(southbound, desired, scope=scope, report_foreign=True)
    assert not outcome.changed
    assert [(item.kind, item.name) for item in outcome.foreign] == [("Chassis", "own"), ("Encap", "geneve")]
    fewer = [*chassis("n1", "192.0.2.1"), *chassis("n2", "192.0.2.2")]
    assert converge(southbound, fewer, scope=scope).summary() == {"create": 0, "update": 0, "delete": 1, "foreign": 0}
    assert len(southbound.rows("Encap")) == 3
    assert converge(southbound, [], scope=scope).summary()["delete"] == 4
    assert southbound.dump() == before
