# SPDX-License-Identifier: Apache-2.0
"""Ports of many networks reach ovs-vswitchd and ovn-controller in one transaction: each has work after every one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Scope, reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.vswitch import TABLES, render_workload_ports
from tests.pipeline import layer2, namespace, plan_of, workload

from .network import OWNER, Counting, Dying, Killed

NETWORKS = 12


@pytest.fixture(scope="module")
def ports():
    """The ports of one workload in each network, and on the default network."""
    text = "".join(
        namespace(f"n{number}") + layer2(f"n{number}", "net", "10.0.0.0/24") + workload(f"n{number}", "w", "node1")
        for number in range(NETWORKS)
    )
    return render_workload_ports(plan_of(text), "node1")


def with_bridge(vswitch):
    vswitch.transact(
        {"op": "insert", "table": "Bridge", "uuid-name": "b", "row": {"name": "br-int"}},
        {"op": "insert", "table": "Open_vSwitch", "row": {"bridges": ["named-uuid", "b"]}},
    )


def apply(client, rows):
    return reconcile(client, "Open_vSwitch", rows, owner=OWNER, scope=Scope(tables=frozenset(TABLES)))


def test_ports_of_all_networks_are_written_at_once(vswitch, ports):
    with_bridge(vswitch)
    with vswitch.client() as client:
        counting = Counting(client)
        assert len([change for change in apply(counting, ports).changes if change.kind == "Port"]) == 2 * NETWORKS
        assert counting.writes == 1
        assert not apply(client, ports).changed


def test_port_that_the_database_rejects_does_not_keep_the_others_away(vswitch, ports):
    with_bridge(vswitch)
    # A VLAN beyond the schema's limits.
    spoilt = [
        replace(row, columns={**row.columns, "tag": 5000}) if row.table == "Port" and row.network == "n3_net" else row
        for row in ports
    ]
    with vswitch.client() as client:
        outcome = apply(client, spoilt)
    assert [network for network, _reason in outcome.refused] == ["n3_net"]
    assert {row["name"] for row in vswitch.rows("Port", "name")} >= {
        row.columns["name"] for row in ports if row.table == "Port" and row.network != "n3_net"
    }


def test_port_whose_name_another_bridge_has_does_not_keep_the_others_away(vswitch, ports):
    with_bridge(vswitch)
    taken = next(row.columns["name"] for row in ports if row.table == "Port" and row.network == "n3_net")
    vswitch.transact(
        {"op": "insert", "table": "Interface", "uuid-name": "i", "row": {"name": taken}},
        {"op": "insert", "table": "Port", "uuid-name": "p", "row": {"name": taken, "interfaces": ["named-uuid", "i"]}},
        {"op": "insert", "table": "Bridge", "uuid-name": "f", "row": {"name": "br0", "ports": ["named-uuid", "p"]}},
        {"op": "mutate", "table": "Open_vSwitch", "where": [],
         "mutations": [["bridges", "insert", ["named-uuid", "f"]]]},
    )  # fmt: skip
    with vswitch.client() as client:
        outcome = apply(client, ports)
    assert [network for network, _reason in outcome.refused] == ["n3_net"]
    assert taken in outcome.refused[0][1]
    wanted = {row.columns["name"] for row in ports if row.table == "Port"}
    assert {row["name"] for row in vswitch.rows("Port", "name")} == wanted


def test_run_that_ends_before_the_transaction_is_completed_by_the_next_one(vswitch, ports):
    with_bridge(vswitch)
    with vswitch.client() as client, pytest.raises(Killed):
        apply(Dying(client, survives=0), ports)
    with vswitch.client() as client:
        assert apply(client, ports).changed
        assert not apply(client, ports).changed
