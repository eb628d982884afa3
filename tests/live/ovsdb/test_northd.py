# SPDX-License-Identifier: Apache-2.0
"""ovn-northd accepts what the engine writes, and waiting for it names the daemon that is late."""

from __future__ import annotations

import itertools
import signal

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb import patience, wait
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import OvsdbError
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Row
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import (
    ChassisBehind,
    NorthdSilent,
    TimedOut,
    caught_up,
    synchronise,
    wait_until,
)
from tests.live.conftest import START_TIMEOUT, wait_for

from .network import converge, rows


def test_change_is_translated(northbound, southbound, northd):
    desired = rows("A", "B")
    converge(northbound, desired)
    with northbound.client() as client, southbound.client() as reader:
        assert synchronise(client, reader, START_TIMEOUT) == 1
        assert caught_up(client, reader)
    bound = {row["logical_port"] for row in southbound.rows("Port_Binding", "logical_port")}
    assert {"A_a", "A_r", "A_lrp", "B_a", "B_r", "B_lrp"} <= bound
    assert not converge(northbound, desired).changed


def test_northd_writes_are_no_drift(northbound, southbound, northd):
    desired = rows("A")
    for _round in range(2):
        converge(northbound, desired)
        with northbound.client() as client, southbound.client() as reader:
            synchronise(client, reader, START_TIMEOUT)
    assert not converge(northbound, desired).changed


def test_silent_northd(northbound, southbound, northd):
    northd.send_signal(signal.SIGSTOP)
    try:
        with northbound.client() as client, southbound.client() as reader:
            with pytest.raises(NorthdSilent, match="ovn-northd has not"):
                synchronise(client, reader, 0.2)
            assert not caught_up(client, reader)
    finally:
        northd.send_signal(signal.SIGCONT)


def test_slow_northd_is_waited_for(northbound, southbound, northd, monkeypatch):
    """Hundreds of networks on a slow host took longer than the timeout, and the run failed though northd worked."""
    readings = itertools.count()

    def seconds(_daemon):
        found = next(readings)
        if found == 3:
            northd.send_signal(signal.SIGCONT)
        return found

    monkeypatch.setattr(wait, "processor_seconds", seconds)
    monkeypatch.setattr(patience, "_MOST_PERIODS", 1000)
    northd.send_signal(signal.SIGSTOP)
    try:
        with northbound.client() as client, southbound.client() as reader:
            assert synchronise(client, reader, 0.2) == 1
        assert next(readings) > 3
    finally:
        northd.send_signal(signal.SIGCONT)


def add_chassis(southbound, name: str, **other_config: str) -> None:
    """Add a chassis whose ovn-controller has programmed nothing yet."""
    chassis = {"name": name, "encaps": ["named-uuid", "encap"], "other_config": ["map", list(other_config.items())]}
    encap = {"type": "geneve", "ip": "192.0.2.1", "chassis_name": name}
    southbound.transact(
        {"op": "insert", "table": "Chassis", "uuid-name": "chassis", "row": chassis},
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
        {"op": "insert", "table": "Chassis_Private", "row": {"name": name, "chassis": ["named-uuid", "chassis"]}},
    )


def translated(northbound, southbound) -> int:
    """Count `nb_cfg` up and wait until northd has the number, however long that takes; return it."""
    number = northbound.rows("NB_Global", "nb_cfg")[0]["nb_cfg"] + 1
    northbound.transact({"op": "update", "table": "NB_Global", "where": [], "row": {"nb_cfg": number}})
    wait_for(lambda: southbound.rows("SB_Global", "nb_cfg")[0]["nb_cfg"] == number, "the number in the Southbound")
    return number


def test_chassis_behind(northbound, southbound, northd):
    add_chassis(southbound, "host")
    with northbound.client() as client, southbound.client() as reader:
        number = translated(northbound, southbound)
        with pytest.raises(ChassisBehind, match="the ovn-controller of host has not programmed"):
            synchronise(client, reader, 0.2, number)
        assert not caught_up(client, reader)
        southbound.transact({"op": "update", "table": "Chassis_Private", "where": [], "row": {"nb_cfg": 1}})
        assert caught_up(client, reader)


def test_own_chassis_that_is_not_registered_is_behind(northbound, southbound, northd):
    with northbound.client() as client, southbound.client() as reader:
        number = translated(northbound, southbound)
        with pytest.raises(ChassisBehind, match="the ovn-controller of host has not programmed"):
            synchronise(client, reader, 0.2, number, chassis="host")
        assert not caught_up(client, reader, "host")
        add_chassis(southbound, "host")
        southbound.transact({"op": "update", "table": "Chassis_Private", "where": [], "row": {"nb_cfg": 1}})
        assert caught_up(client, reader, "host")


def test_remote_chassis_is_not_waited_for(northbound, southbound, northd):
    add_chassis(southbound, "elsewhere", **{"is-remote": "true"})
    with northbound.client() as client, southbound.client() as reader:
        synchronise(client, reader, START_TIMEOUT)
        assert caught_up(client, reader)


def test_no_northd_ever(northbound, southbound):
    refused = pytest.raises(OvsdbError, match="no NB_Global row")
    with northbound.client() as client, southbound.client() as reader, refused:
        synchronise(client, reader, 1)


def test_wait_until(northbound):
    arguments = (northbound.database, "Logical_Switch", [["name", "==", "late"]], ["name"], bool)
    with northbound.client() as client:
        with pytest.raises(TimedOut) as caught:
            wait_until(client, *arguments, timeout=0.05)
        assert caught.value.seen == []
        converge(northbound, [Row("Logical_Switch", "late", {"name": "late"})])
        assert wait_until(client, *arguments, timeout=5) == [{"name": "late"}]
