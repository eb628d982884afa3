# SPDX-License-Identifier: Apache-2.0
"""Flows that drop are written without a program, and are the same ones that a program would write."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import OpenFlowError
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.drop_flows import encoded
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.reconcile import reconcile_flows, write_changed_flows
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.switch import Switch
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb import control_socket
from ansible_collections.heddle.ovn.plugins.module_utils.types.openflow_flow import Flow
from tests.live.conftest import stop, wait_for
from tests.live.gateway.packets import read_capture
from tests.live.openflow.conftest import PATCH

SENT = f"in_port={{{PATCH}}},dl_src=02:00:00:00:00:01"
MATCHES = (
    f"{SENT},ip,pkt_mark=0xc350",
    f"{SENT},ipv6,pkt_mark=0xc350",
    f"{SENT},ip,nw_src=192.0.2.100",
    f"{SENT},ipv6,ipv6_src=2001:db8::100",
    f"in_port={{{PATCH}}},arp,arp_spa=192.0.2.100",
    f"in_port={{{PATCH}}},icmp6,icmp_type=136,icmp_code=0,nd_target=2001:db8::100",
    "in_port=LOCAL,ip",
)
DROPS = [Flow("br-ex", 0, 106, match, "drop", "red") for match in MATCHES]
OTHER = Flow("br-ex", 0, 105, MATCHES[0], f"output:{{{PATCH}}}", "red")
FRAME = bytes.fromhex("ffffffffffff" + "0a5864410002" + "88b5") + b"announced".ljust(46, b"\0")


@pytest.fixture
def started(vswitchd, vswitch):
    """The switch, and the programs that were started for it."""
    calls = []

    def run(argv, text=""):
        calls.append(argv)
        return vswitchd.run(argv, text)

    with vswitch.client() as client:
        yield Switch(client, run), calls


def test_flows_are_written_and_removed_without_a_program(started):
    switch, calls = started
    outcome = write_changed_flows(switch, [OTHER], [OTHER, *DROPS], removing=False)
    assert [change.action for change in outcome.changes] == ["create"] * len(DROPS)
    assert not write_changed_flows(switch, [OTHER], [OTHER, *DROPS], removing=False).changed
    assert calls == []
    # As `ovs-ofctl` would have written them.
    assert not reconcile_flows(switch, ["br-ex"], DROPS, write=False).changed
    calls.clear()
    outcome = write_changed_flows(switch, DROPS, DROPS[:2], removing=True)
    assert [change.action for change in outcome.changes] == ["delete"] * (len(DROPS) - 2)
    assert not write_changed_flows(switch, DROPS, DROPS[:2], removing=True).changed
    assert calls == []
    assert not reconcile_flows(switch, ["br-ex"], DROPS[:2], write=False).changed


def test_a_flow_that_does_something_else_is_replaced(started, vswitchd):
    switch, calls = started
    flow = DROPS[0]
    match = flow.match.replace(f"{{{PATCH}}}", switch.ports()["br-ex"][PATCH])
    vswitchd.ofctl("add-flow", "br-ex", f"cookie={flow.cookie:#x},priority=106,{match},actions=NORMAL")
    assert write_changed_flows(switch, [], [flow], removing=False).changed
    assert calls == []
    assert not reconcile_flows(switch, ["br-ex"], [flow], write=False).changed


@pytest.mark.parametrize("removing", [False, True])
def test_a_foreign_flow_stays(started, vswitchd, removing):
    switch, _calls = started
    match = DROPS[0].match.replace(f"{{{PATCH}}}", switch.ports()["br-ex"][PATCH])
    vswitchd.ofctl("add-flow", "br-ex", f"cookie=0x7,priority=106,{match},actions=drop")
    plans = (DROPS, []) if removing else ([], DROPS)
    if removing:
        write_changed_flows(switch, *plans, removing=True)
    else:
        with pytest.raises(OpenFlowError, match="not Heddle's"):
            write_changed_flows(switch, *plans, removing=False)
    assert "cookie=0x7" in vswitchd.ofctl("dump-flows", "br-ex")


def test_what_does_more_than_to_drop_is_left_to_the_program(started):
    switch, calls = started
    ports = switch.ports()["br-ex"]
    assert encoded(OTHER, ports) is None
    assert encoded(Flow("br-ex", 0, 1, "udp,tp_dst=53", "drop"), ports) is None
    assert write_changed_flows(switch, [], [OTHER, *DROPS], removing=False).changed
    assert calls
    assert not reconcile_flows(switch, ["br-ex"], [OTHER, *DROPS], write=False).changed


def test_a_frame_goes_out_of_one_port_without_asking_flows(started, vswitchd, folder):
    switch, calls = started
    for name in ("vm0_h", "vm1_h"):
        pcap = folder / f"{name}.pcap"
        vswitchd.vsctl("add-port", "br-ex", name, "--", "set", "Interface", name, f'options:tx_pcap="{pcap}"')
    vswitchd.ofctl("add-flow", "br-ex", "priority=100,actions=drop")
    switch.send("br-ex", "vm0_h", [FRAME, FRAME])
    wait_for(lambda: read_capture(folder / "vm0_h.pcap") == [FRAME, FRAME], "the frames")
    assert read_capture(folder / "vm1_h.pcap") == []
    assert calls == []
    with pytest.raises(OpenFlowError, match="no port gone"):
        switch.send("br-ex", "gone", [FRAME])


def test_commands_over_the_control_socket(vswitchd, folder):
    """The live tests name the socket otherwise than the service does, by its process."""
    assert control_socket.call(control_socket.VSWITCHD, "version") is None
    (folder / "ovs-vswitchd.pid").write_text("7\n")
    (folder / "ovs-vswitchd.7.ctl").symlink_to(folder / "vswitchd.ctl")
    assert control_socket.call(control_socket.VSWITCHD, "version").startswith("ovs-vswitchd (Open vSwitch)")
    assert control_socket.call(control_socket.VSWITCHD, "there/is/no/such/command") is None
    stop(vswitchd.process)
    assert control_socket.call(control_socket.VSWITCHD, "version") is None


def test_waiting_for_the_datapath_does_not_wait_for_the_next_periodic_revalidation(started, vswitchd, folder):
    """Which is an hour later here, longer than any time-out of ours."""
    switch, calls = started
    (folder / "ovs-vswitchd.pid").write_text("7\n")
    (folder / "ovs-vswitchd.7.ctl").symlink_to(folder / "vswitchd.ctl")
    vswitchd.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=3600000", "other_config:max-revalidator=3600000")
    assert write_changed_flows(switch, [], DROPS, removing=False).changed

    def flows() -> list[str]:
        return sorted(vswitchd.ofctl("dump-flows", "--no-stats", "br-ex").splitlines())

    before = flows()
    for _time in range(3):
        switch.wait_for_datapath(DROPS)
    assert calls == []
    assert flows() == before


def test_waiting_for_the_datapath_leaves_a_foreign_flow(started, vswitchd):
    """The wait then lasts until the next periodic revalidation."""
    switch, _calls = started
    match = DROPS[0].match.replace(f"{{{PATCH}}}", switch.ports()["br-ex"][PATCH])
    vswitchd.ofctl("add-flow", "br-ex", f"cookie=0x7,priority=106,{match},actions=drop")
    switch.wait_for_datapath(DROPS[:1])
    assert "cookie=0x7" in vswitchd.ofctl("dump-flows", "br-ex")
