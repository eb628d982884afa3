# SPDX-License-Identifier: Apache-2.0
"""When a workload's port counts as up, on a host with real daemons: its flows are there, and no mark is of before."""

from __future__ import annotations

import contextlib
import signal

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import workloads
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.ports import ports_not_up, wait_for_ports
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import synchronise
from tests.live.conftest import START_TIMEOUT, wait_for
from tests.live.gateway.conftest import interface_of
from tests.pipeline import layer2, namespace, workload

TEXT = namespace("red") + layer2("red", "net", "10.1.0.0/24") + workload("red", "w", "node1")
PORT, INTERFACE = "red.net_red_w", interface_of("red", "w")
SECOND, SECOND_INTERFACE = "red.net_red_v", interface_of("red", "v")


@pytest.fixture
def zone(host):
    """node1 with a workload that can send, and the port of another one that has no interface yet."""
    machine, found = host(TEXT)
    found.machine = machine
    assert not missing(found, PORT)
    found.apply(TEXT + workload("red", "v", "node1"))
    return found


@contextlib.contextmanager
def halted(process):
    """Keep a daemon from working."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def missing(zone, *ports: str, timeout: float | None = None) -> list[str]:
    with zone.machine.vswitch.client() as switch, zone.southbound.client() as southbound:
        if timeout is None:
            return ports_not_up(switch, southbound, list(ports))
        return wait_for_ports(switch, southbound, list(ports), timeout)


def has_flow(zone, interface: str) -> bool:
    """Whether packets of an interface enter the logical network: a flow for them has to be in table 0 of the bridge."""
    rows = zone.machine.vswitch.rows("Interface", "name", "ofport")
    number = next(row["ofport"] for row in rows if row["name"] == interface)
    return bool(zone.machine.run(["ovs-ofctl", "dump-flows", "--no-stats", "br-int", f"table=0,in_port={number}"]))


def has_mark(zone, interface: str) -> bool:
    """Whether Open vSwitch's database has the mark of installed flows at an interface."""
    rows = zone.machine.vswitch.rows("Interface", "name", "external_ids")
    return any(row["name"] == interface and ["ovn-installed", "true"] in row["external_ids"][1] for row in rows)


def has_up(zone, port: str) -> bool:
    """Whether the Southbound has the port up."""
    rows = zone.southbound.rows("Port_Binding", "logical_port", "up")
    return any(row["logical_port"] == port and row["up"] is True for row in rows)


def test_a_port_is_up_with_its_flows_whatever_northd_does(zone, northd):
    assert missing(zone, SECOND) == [SECOND]
    with halted(northd):
        zone.machine.attach((SECOND_INTERFACE, SECOND))
        assert not missing(zone, PORT, SECOND, timeout=START_TIMEOUT)
        assert has_flow(zone, SECOND_INTERFACE)
        assert not missing(zone, PORT, SECOND)
        ups = {row["name"]: row["up"] for row in zone.northbound.rows("Logical_Switch_Port", "name", "up")}
        assert ups[SECOND] is False


def test_an_interface_that_was_made_anew_has_no_mark_of_the_former_one(zone):
    with halted(zone.machine.processes[-1]):
        zone.machine.vsctl(
            "--no-wait", "del-port", "br-int", INTERFACE, "--", "add-port", "br-int", INTERFACE,
            "--", "set", "Interface", INTERFACE, f"external_ids:iface-id={PORT}",
        )  # fmt: skip
        assert has_up(zone, PORT)
        assert missing(zone, PORT, timeout=1) == [PORT]
    assert not missing(zone, PORT, timeout=START_TIMEOUT)
    assert has_flow(zone, INTERFACE)


def test_an_interface_that_stands_for_another_port_now(zone):
    with halted(zone.machine.processes[-1]):
        zone.machine.vsctl("--no-wait", "set", "Interface", INTERFACE, f"external_ids:iface-id={SECOND}")
        assert has_mark(zone, INTERFACE)
        assert missing(zone, PORT, SECOND, timeout=1) == [PORT, SECOND]
    assert not missing(zone, SECOND, timeout=START_TIMEOUT)
    assert has_flow(zone, INTERFACE)
    assert missing(zone, PORT) == [PORT]


def test_a_port_that_was_made_anew(zone):
    """Its interface has the mark of the former port until ovn-controller takes it away."""
    rows = zone.northbound.rows("Logical_Switch_Port", "name", "addresses", "port_security")
    old = next(row for row in rows if row["name"] == PORT)
    columns = {key: value for key, value in old.items() if key != "_uuid"}
    uuid = ["uuid", old["_uuid"][1]]
    with halted(zone.machine.processes[-1]):
        before = {row["logical_port"]: row["_uuid"] for row in zone.southbound.rows("Port_Binding", "logical_port")}
        zone.northbound.transact(
            {"op": "insert", "table": "Logical_Switch_Port", "uuid-name": "anew", "row": columns},
            {"op": "mutate", "table": "Logical_Switch", "where": [["ports", "includes", uuid]],
             "mutations": [["ports", "insert", ["named-uuid", "anew"]], ["ports", "delete", uuid]]},
        )  # fmt: skip

        def bound_anew() -> bool:
            rows = zone.southbound.rows("Port_Binding", "logical_port")
            return any(row["logical_port"] == PORT and row["_uuid"] != before[PORT] for row in rows)

        wait_for(bound_anew, "the port in the Southbound")
        assert has_mark(zone, INTERFACE)
        assert missing(zone, PORT, timeout=1) == [PORT]
    assert not missing(zone, PORT, timeout=START_TIMEOUT)
    assert has_flow(zone, INTERFACE)
    with zone.northbound.client() as client, zone.southbound.client() as reader:
        synchronise(client, reader, START_TIMEOUT, chassis="chassis-of-node1")
    assert not missing(zone, PORT)


def test_the_state_of_a_host_follows_the_same_marks(zone, monkeypatch):
    monkeypatch.setattr(workloads, "VSWITCH_REMOTE", zone.machine.vswitch.remote)
    monkeypatch.setattr(workloads, "SOUTHBOUND_REMOTE", zone.southbound.remote)
    # All interfaces of all workloads, also those on the default network, which this host has not attached.
    interfaces = [one for entry in zone.plan["workloads"].values() for one in entry["interfaces"]]
    assert not workloads.are_up(zone.plan, "node1")
    others = [(f"if-{number}", one["port"]) for number, one in enumerate(interfaces) if one["port"] != PORT]
    zone.machine.attach(*others)
    wait_for(lambda: workloads.are_up(zone.plan, "node1"), "the ports")
