# SPDX-License-Identifier: Apache-2.0
"""What a comparison of flows read is the same as long as no client changes the switch, and not after any drift."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.openflow.reconcile import reconcile_flows
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.switch import Switch
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.trace import SwitchTrace, replies_equal
from ansible_collections.heddle.ovn.plugins.module_utils.types.openflow_flow import (
    OWN_COOKIES,
    FloodPort,
    Flow,
    StaticMac,
)
from tests.live.conftest import START_TIMEOUT, stop
from tests.live.openflow.conftest import PATCH

MAC = "0a:58:0a:00:00:01"
FLOWS = [Flow("br-ex", 0, 9, f"in_port={{{PATCH}}}", "drop", "red"), Flow("br-ex", 1, 10, "ip", "LOCAL", "red")]
PORTS = [FloodPort("br-ex", PATCH, False, "red")]
MACS = [StaticMac("br-ex", MAC, "br-ex", network="red")]


class Compared:
    """The flows of br-ex, as the gateways compare them."""

    def __init__(self, vswitchd, vswitch) -> None:
        self.vswitchd, self.vswitch = vswitchd, vswitch

    def compare(self):
        """Apply; return the outcome, and what was read for it."""
        trace = SwitchTrace(self.vswitchd.run)
        with self.vswitch.client() as client:
            switch = Switch(client, trace.run)
            bridges = {"br-ex", *switch.bridges_with(OWN_COOKIES, without={"br-ex", "br-int"})}
            outcome = reconcile_flows(switch, sorted(bridges), FLOWS, PORTS, MACS, write=True, timeout=START_TIMEOUT)
            trace.note_ports(switch, bridges)
        return outcome, trace.read()

    def equal(self, read) -> bool:
        """Whether the next comparison would read the same."""
        return replies_equal(self.vswitch.remote, read, START_TIMEOUT, self.vswitchd.run)


@pytest.fixture
def compared(vswitchd, vswitch):
    """br-ex with all that is desired."""
    made = Compared(vswitchd, vswitch)
    outcome, read = made.compare()
    assert outcome.changed and read is None, "what was written is not a comparison"
    return made


def test_every_drift_of_the_switch_changes_what_is_read(compared, vswitchd):
    drift = {
        "flow deleted": lambda: vswitchd.ofctl("del-flows", "br-ex", "cookie=0xdeff105/-1,table=1,ip"),
        "actions": lambda: vswitchd.ofctl("add-flow", "br-ex", "cookie=0xdeff105,table=1,priority=10,ip,actions=drop"),
        "timeout": lambda: vswitchd.ofctl(
            "add-flow", "br-ex", "cookie=0xdeff105,table=1,priority=10,idle_timeout=300,ip,actions=LOCAL"
        ),
        "flow too many": lambda: vswitchd.ofctl("add-flow", "br-ex", "cookie=0xdeff105,table=3,actions=drop"),
        "all flows": lambda: vswitchd.ofctl("del-flows", "br-ex"),
        "flooding": lambda: Switch(None, vswitchd.run).set_flooding("br-ex", {"2": True}),
        "static MAC": lambda: vswitchd.run(["ovs-appctl", "fdb/del", "br-ex", "0", MAC]),
        "port number": lambda: vswitchd.vsctl("del-port", PATCH),
        "restart": vswitchd.restart,
        "other bridge": lambda: (
            vswitchd.vsctl("add-br", "br-other"),
            vswitchd.ofctl("add-flow", "br-other", "cookie=0xdeff105,priority=5,arp,actions=drop"),
        ),
    }
    for name, do in drift.items():
        outcome, read = compared.compare()
        assert not outcome.changed and compared.equal(read), name
        do()
        assert not compared.equal(read), name
        if name == "port number":
            options = ("type=patch", f"options:peer=peer-of-{PATCH}")
            vswitchd.vsctl("add-port", "br-ex", "between", "--", "add-port", "br-ex", PATCH)
            vswitchd.vsctl("set", "Interface", PATCH, *options)
            assert not compared.equal(read), name
        assert compared.compare()[0].changed, name


def test_learned_addresses_and_counters_are_no_drift(compared, vswitchd):
    _outcome, read = compared.compare()
    # An ARP request (RFC 826) of 10.0.0.9.
    frame = "ffffffffffff0a580a000009080600010800060400010a580a0000090a0000090000000000000a000001"
    vswitchd.run(["ovs-appctl", "netdev-dummy/receive", "eth0", frame])
    assert compared.equal(read)


def test_a_stopped_switch_and_a_record_that_would_write_are_not_equal(compared, vswitchd):
    _outcome, read = compared.compare()
    edited = {**read, "programs": [[["ovs-ofctl", "del-flows", "br-ex"], "0"]]}
    assert not compared.equal(edited)
    assert compared.equal(read)
    assert not compared.equal({**read, "programs": [[["rm", "dump-flows"], "0"]]})
    stop(vswitchd.process)
    assert not compared.equal(read)


def test_ports_of_other_bridges_are_not_part_of_what_was_read(compared, vswitchd):
    _outcome, read = compared.compare()
    vswitchd.vsctl("add-port", "br-int", "workload")
    assert compared.equal(read)
    vswitchd.vsctl("add-port", "br-ex", "another")
    assert not compared.equal(read)
