# SPDX-License-Identifier: Apache-2.0
"""ovn-northd accepts what the engine writes, and waiting for it names the daemon that is late."""

from __future__ import annotations

import signal

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.client import OvsdbError
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Row
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import (
    ChassisBehind,
    NorthdSilent,
    TimedOut,
    caught_up,
    synchronise,
    wait_until,
)

from .network import converge, rows


def test_change_is_translated(northbound, southbound, northd):
    desired = rows("A", "B")
    converge(northbound, desired)
    with northbound.client() as client:
        numbers = synchronise(client, 20)
        assert caught_up(client)
    assert numbers["sb_cfg"] == numbers["nb_cfg"] == numbers["hv_cfg"] == 1
    bound = {row["logical_port"] for row in southbound.rows("Port_Binding", "logical_port")}
    assert {"A_a", "A_r", "A_lrp", "B_a", "B_r", "B_lrp"} <= bound
    assert not converge(northbound, desired).changed


def test_northd_writes_are_no_drift(northbound, northd):
    desired = rows("A")
    for _round in range(2):
        converge(northbound, desired)
        with northbound.client() as client:
            synchronise(client, 20)
    assert not converge(northbound, desired).changed


def test_silent_northd(northbound, northd):
    northd.send_signal(signal.SIGSTOP)
    try:
        with northbound.client() as client, pytest.raises(NorthdSilent, match="ovn-northd has not"):
            synchronise(client, 0.2)
    finally:
        northd.send_signal(signal.SIGCONT)


def test_chassis_behind(northbound, southbound, northd):
    southbound.transact(
        {"op": "insert", "table": "Chassis", "row": {"name": "host", "encaps": ["named-uuid", "encap"]}},
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": {"type": "geneve", "ip": "192.0.2.1"}},
        {"op": "insert", "table": "Chassis_Private", "row": {"name": "host"}},
    )
    with northbound.client() as client:
        with pytest.raises(ChassisBehind, match="ovn-controller has not"):
            synchronise(client, 1)
        assert not caught_up(client)


def test_no_northd_ever(northbound):
    with northbound.client() as client, pytest.raises(OvsdbError, match="no NB_Global row"):
        synchronise(client, 1)


def test_wait_until(northbound):
    arguments = (northbound.database, "Logical_Switch", [["name", "==", "late"]], ["name"], bool)
    with northbound.client() as client:
        with pytest.raises(TimedOut) as caught:
            wait_until(client, *arguments, timeout=0.05)
        assert caught.value.seen == []
        converge(northbound, [Row("Logical_Switch", "late", {"name": "late"})])
        assert wait_until(client, *arguments, timeout=5) == [{"name": "late"}]
