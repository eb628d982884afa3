# SPDX-License-Identifier: Apache-2.0
"""Flooding of many ports is changed over one connection; what the switch rejects or loses is an error."""

from __future__ import annotations

import socket
import threading

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import OpenFlowError
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.management_connection import management_socket
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.port_modification import FloodSetting, set_flooding
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.reconcile import reconcile_flows
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.switch import Switch
from ansible_collections.heddle.ovn.plugins.module_utils.types.openflow_flow import FloodPort
from tests.live.conftest import stop

NAMES = [f"p{number}" for number in range(40)]


@pytest.fixture
def ports(vswitchd) -> list[str]:
    """Forty more ports of br-ex."""
    for name in NAMES:
        vswitchd.vsctl("add-port", "br-ex", name)
    return NAMES


def test_many_ports_are_changed_by_two_reads_and_no_other_program(vswitchd, vswitch, ports):
    calls = []

    def run(argv, text=""):
        calls.append(argv)
        return vswitchd.run(argv, text)

    wanted = [FloodPort("br-ex", name, flood=False, network="red") for name in ports]
    with vswitch.client() as client:
        switch = Switch(client, run)
        outcome = reconcile_flows(switch, ["br-ex"], [], wanted, write=True, timeout=120)
        assert len(outcome.changes) == len(ports)
        assert sum("dump-ports-desc" in argv for argv in calls) == 2
        assert not any("mod-port" in argv for argv in calls)
        assert vswitchd.ofctl("-O", "OpenFlow10", "dump-ports-desc", "br-ex").count("NO_FLOOD") == len(ports)
        assert not reconcile_flows(switch, ["br-ex"], [], wanted, write=True, timeout=120).changed
        switch.set_flooding("br-ex", {"LOCAL": False})
        assert not switch.flooding("br-ex")["LOCAL"]


def test_a_rejected_port_is_named_and_all_others_are_changed(switch, ports):
    found = switch._flood_settings("br-ex")
    kept, other = found[0], found[1]
    wrong = [FloodSetting(kept.port, "02:00:00:00:00:99", False), FloodSetting("4000", kept.mac, False)]
    with pytest.raises(OpenFlowError, match=rf"port {kept.port} \(error type 4, code 1\), 4000 \(error type 4, code 0"):
        set_flooding(management_socket("br-ex"), [*wrong, FloodSetting(other.port, other.mac, False)])
    after = switch.flooding("br-ex")
    assert (after[kept.port], after[other.port]) == (True, False)
    with pytest.raises(OpenFlowError, match="no port 4000"):
        switch.set_flooding("br-ex", {"4000": False})


def test_a_switch_that_is_gone_is_an_error(vswitchd):
    stop(vswitchd.process)
    with pytest.raises(OpenFlowError, match="Does ovs-vswitchd run"):
        set_flooding(management_socket("br-ex"), [FloodSetting("1", "02:00:00:00:00:01", False)])


@pytest.mark.parametrize("reply", [b"", bytes.fromhex("0101000c0000000000000000"), bytes.fromhex("0100000800000000")])
def test_a_switch_that_ends_the_connection_is_an_error(folder, reply):
    """Before its hello, with an error in place of it, and after it."""
    path = folder / "br-x.mgmt"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve():
            connection, _address = server.accept()
            with connection:
                connection.sendall(reply)
                connection.recv(8)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(OpenFlowError, match=r"br-x\.mgmt: "):
            set_flooding(str(path), [FloodSetting("1", "02:00:00:00:00:01", False)], timeout=120)
        thread.join()
