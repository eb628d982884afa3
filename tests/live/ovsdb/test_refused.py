# SPDX-License-Identifier: Apache-2.0
"""A network whose rows the database cannot hold or refuses: it stays as it is, and all others are written."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Conflict, OvsdbError
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import InvalidRows, Row, reconcile

from .network import DATABASE, EVERYTHING, OWNER, changed, converge, network, rows, shared

NAMES = ("A", "B", "C", "D", "E", "F", "G")


def without_value(name: str) -> list[Row]:
    """Rows of a network one of which has no value where text is wanted."""
    return changed(network(name), "Logical_Router_Port", f"{name}_lrp", options={"gateway_mtu": None})


def out_of_range(name: str) -> list[Row]:
    """Rows of a network one of which only the server rejects: a priority beyond the schema's limits."""
    return changed(network(name), "ACL", f"{name}_acl", priority=40000)


def switches(northbound) -> set[str]:
    return {row["name"] for row in northbound.rows("Logical_Switch")}


@pytest.mark.parametrize("spoilt", [without_value, out_of_range])
def test_other_networks_are_written(northbound, spoilt):
    desired = [*shared(), *(row for name in NAMES for row in (spoilt(name) if name == "C" else network(name)))]
    outcome = converge(northbound, desired)
    assert switches(northbound) == {f"{name}_switch" for name in NAMES if name != "C"}
    ((refused, reason),) = outcome.refused
    assert refused == "C"
    assert "C_lrp" in reason or "C_acl" in reason
    assert all(change.network != "C" for change in outcome.changes)
    again = converge(northbound, desired)
    assert not again.changed
    assert again.refused == outcome.refused


@pytest.mark.parametrize("spoilt", [without_value, out_of_range])
def test_refused_network_keeps_its_rows_and_stale_rows_of_others_are_deleted(northbound, spoilt):
    converge(northbound, rows("A", "B", "C"))
    before = {row["_uuid"][1] for row in northbound.rows("Logical_Switch_Port") if row["name"].startswith("C_")}
    desired = [*shared(), *network("A", mtu="1300"), *spoilt("C")]
    outcome = converge(northbound, desired, scope=EVERYTHING)
    assert switches(northbound) == {"A_switch", "C_switch"}
    after = {row["_uuid"][1] for row in northbound.rows("Logical_Switch_Port") if row["name"].startswith("C_")}
    assert after == before
    assert [name for name, _reason in outcome.refused] == ["C"]


@pytest.mark.parametrize("spoilt", [without_value, out_of_range])
def test_next_run_completes_the_network(northbound, spoilt):
    converge(northbound, [*shared(), *network("A"), *spoilt("C")])
    assert not converge(northbound, rows("A", "C")).refused
    assert switches(northbound) == {"A_switch", "C_switch"}


def test_comparison_reports_invalid_rows(northbound):
    with northbound.client() as client, pytest.raises(InvalidRows, match="C_lrp"):
        reconcile(client, DATABASE, [*rows("A"), *without_value("C")], owner=OWNER, write=False)


def test_common_rows_are_never_left_out(northbound):
    spoilt = [*rows("A"), Row("Meter", "m", {"name": "m", "unit": "furlongs"})]
    with northbound.client() as client, pytest.raises((InvalidRows, OvsdbError, Conflict)):
        reconcile(client, DATABASE, spoilt, owner=OWNER)
