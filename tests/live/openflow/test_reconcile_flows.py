# SPDX-License-Identifier: Apache-2.0
"""Flows of a gateway bridge in a real ovs-vswitchd: written, compared, repaired and removed."""

import re
import threading

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import OpenFlowError
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.reconcile import (
    planned_flows,
    reconcile_flows,
)
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.switch import Switch
from ansible_collections.heddle.ovn.plugins.module_utils.types.openflow_flow import (
    OWN_COOKIES,
    FloodPort,
    Flow,
    StaticMac,
)
from tests.live.conftest import START_TIMEOUT, stop
from tests.live.openflow.conftest import OTHER_PATCH, PATCH

MAC = "0a:58:0a:00:00:01"
IN = f"in_port={{{PATCH}}}"
OUT = f"{{{PATCH}}}"

# Every form of match and action that the tables of ovn-kubernetes's gateway bridge have (bridgeflows.go), as a
# renderer may write them: several spellings, aliases and masks, prerequisites left to ovs-ofctl.
FORMS = [
    (0, 700, f"icmp,{IN},icmp_type=3,icmp_code=4,nw_dst=10.0.0.7/32", "drop"),
    (0, 700, f"icmp6,{IN},icmpv6_type=2,icmpv6_code=0,ipv6_dst=FD00::7", "drop"),
    (0, 650, f"udp,{IN},dl_src={MAC},tp_dst=3784", "output:{eth0}"),
    (0, 550, "ip,in_port=LOCAL,nw_src=169.254.0.0/17,nw_dst=10.96.0.0/16", "ct(commit,zone=64001,table=2)"),
    (0, 500, f"ip,{IN},nw_dst=169.254.0.2,ip_src=10.0.0.7", "ct(commit,zone=64001,nat(dst=10.0.0.7),table=4)"),
    (0, 500, "ip,in_port=LOCAL,ip_dst=169.254.0.1", "ct(zone=64002,nat,table=5)"),
    (0, 500, "ip,in_port={br-ex},ip_dst=10.96.0.0/16", "ct(commit,zone=64001,nat(src=169.254.0.2),table=2)"),
    (0, 500, "ipv6,in_port=LOCAL,ipv6_dst=fd00:10:96::/112", "ct(commit,table=2,zone=64001,nat(src=fd69::2))"),
    (0, 499, f"arp,{IN},dl_dst=ff:ff:ff:ff:ff:ff,arp_op=1,arp_spa=10.0.0.7", "NORMAL"),
    (0, 300, "ip,in_port={eth0},nw_dst=10.244.0.0/255.255.255.0", f"output:{OUT}"),
    (0, 205, f"udp,in_port={{eth0}},dl_dst={MAC},udp_dst=6081", "LOCAL"),
    (0, 200, "udp6,in_port=LOCAL,udp_dst=6081", "{eth0}"),
    (0, 175, f"sctp,{IN},nw_src=10.0.0.7", "ct(table=4,zone=64001)"),
    (0, 175, f"tcp6,{IN},ipv6_src=fd00::7", "ct(table=4,zone=64001)"),
    (0, 115, f"ip,{IN},nw_dst=10.96.0.0/16", "drop"),
    (0, 110, "ip,in_port={eth0},ip_frag=yes", "ct(table=0,zone=64004)"),
    (0, 110, "ipv6,in_port={eth0},nw_frag=later", "ct(table=0,zone=64004)"),
    (0, 110, "tcp,in_port={eth0},nw_dst=10.0.0.7,tp_dst=30000/0xfff0", f"output:{OUT}"),
    (
        0, 105, f"ip,{IN},dl_src={MAC},pkt_mark=0x3f0",
        "ct(commit,zone=64000,nat(src=10.0.0.7),exec(set_field:0x1->ct_mark)),output:{eth0}",
    ),
    (
        0, 102, f"ip,{IN},dl_src={MAC},nw_dst=10.0.0.0/24",
        "ct(commit,zone=64000,exec(load:0x1->NXM_NX_CT_MARK[])),output:NORMAL",
    ),
    (0, 102, f"icmp6,{IN},icmp_type=136,icmp_code=0,nd_target=fd00::9,nd_tll={MAC}", "NORMAL"),
    (0, 102, f"ipv6,nw_proto=58,{IN},icmpv6_type=135,nd_sll={MAC}", "NORMAL"),
    (
        0, 100, f"ipv6,in_port={{{OTHER_PATCH}}},dl_src={MAC},ipv6_src=fd69::b",
        "ct(commit,zone=64000,nat(src=fd00::7),exec(set_field:0x4->ct_mark)),output:{eth0}",
    ),
    (
        0, 99, f"ip,in_port={{{OTHER_PATCH}}},nw_src=169.254.0.11",
        "ct(commit,zone=64000,nat(src=10.0.0.7:20000-30000,random),exec(set_field:0x4/0xff->ct_mark)),{eth0}",
    ),
    (0, 50, f"ip,dl_dst={MAC}", "ct(zone=64000,nat,table=1)"),
    (0, 12, "arp,arp_op=1,arp_tpa=10.0.0.7", f"output:{OUT},NORMAL"),
    (0, 12, "icmp6,icmp_type=135,icmp_code=0,nd_target=fd00:0::7", f"output:{OUT},NORMAL"),
    (0, 11, "arp,in_port={eth0},dl_dst=ff:ff:ff:ff:ff:ff,arp_op=1", f"{OUT},{{{OTHER_PATCH}}},NORMAL"),
    (0, 11, "dl_type=0x86dd,nw_proto=58,in_port={eth0},dl_dst=33:33:00:00:00:01,icmp_type=136", f"output:{OUT},NORMAL"),
    (0, 10, f"dl_dst={MAC}", f"output:{OUT},output:{{{OTHER_PATCH}}},NORMAL"),
    (0, 10, f"{IN},dl_src={MAC}/ff:ff:ff:ff:ff:00", "NORMAL"),
    (0, 9, IN, "drop"),
    (0, 0, "", "NORMAL"),
    (1, 100, "ip,ct_state=+est+trk,ct_mark=0x1", f"output:{OUT}"),
    (
        1, 100, "ipv6,ct_state=+trk+rel-new,ct_mark=0x4/0xff",
        "check_pkt_larger(1414)->NXM_NX_REG0[0],resubmit(,11)",
    ),
    (1, 14, "icmp6,icmpv6_type=134", f"output:{OUT},FLOOD"),
    (1, 13, "udp,in_port={eth0},udp_dst=3784", f"output:{OUT},output:LOCAL"),
    (1, 10, f"dl_dst={MAC}", "LOCAL"),
    (2, 250, "pkt_mark=0x1003", f"set_field:{MAC}->eth_dst,output:{OUT}"),
    (2, 200, "ip,nw_src=169.254.0.12", "drop"),
    (2, 100, "", f"mod_dl_dst:{MAC},output:{OUT}"),
    (3, 0, "", f"move:NXM_OF_ETH_DST[]->NXM_OF_ETH_SRC[],set_field:{MAC}->eth_dst,LOCAL"),
    (4, 0, "ip", "ct(commit,zone=64002,nat(src=169.254.0.1),table=3)"),
    (5, 32768, "ip", "ct(commit,zone=64001,nat,table=2)"),
    (5, 100, "tcp,tcp_flags=+syn-ack,nw_tos=0", "resubmit(,2)"),
    (6, 32768, "", "LOCAL"),
    (7, 1, "tun_id=0x5,metadata=0x7/0xff", "{eth0}"),
    (7, 2, "vlan_tci=0x1000/0x1000", "pop_vlan,goto_table:8"),
    (7, 3, "dl_vlan=7,ip", "mod_vlan_vid:9,dec_ttl,resubmit({eth0},8)"),
    (7, 4, "vlan_tci=0x0000", "push_vlan:0x8100,set_field:4103->vlan_vid,in_port"),
    (8, 1, "xreg1=0x100000005", "load:0x1->NXM_NX_REG0[3..5],set_field:5->reg2,set_queue:1,output:NXM_NX_REG2[]"),
    (11, 10, "reg0=0x1/0x1", "LOCAL"),
    (11, 5, "ct_mark=0x4", f"output:{OUT}"),
]  # fmt: skip


def flow(table, priority, match, actions, **changes):
    return Flow("br-ex", table, priority, match, actions, "red", **changes)


FLOWS = [flow(*form) for form in FORMS]


def apply(switch, flows=(), *extra, write=True, timeout=60.0):
    return reconcile_flows(switch, ["br-ex"], flows, *extra, write=write, timeout=timeout)


def dump(vswitchd):
    return vswitchd.ofctl("dump-flows", "--no-stats", "br-ex").splitlines()


def test_all_flow_forms_create_recognise_remove(vswitchd, switch):
    before = dump(vswitchd)
    checked = apply(switch, FLOWS, write=False)
    assert dump(vswitchd) == before
    assert len(checked.changes) == len(FLOWS)
    assert apply(switch, FLOWS).changes == checked.changes
    assert len(dump(vswitchd)) == len(FLOWS)
    again = apply(switch, FLOWS)
    assert again.changes == ()
    assert again.foreign == ()
    assert len(apply(switch).changes) == len(FLOWS)
    assert dump(vswitchd) == before
    assert not apply(switch).changed


@pytest.mark.parametrize(
    ("form", "source", "address"),
    [
        ("ip", "10.0.0.9", "10.0.0.9"),
        ("ip", "10.0.0.9:32768-60999", "10.0.0.9"),
        ("ipv6", "fd00::9", "fd00::9"),
        ("ipv6", "[fd00::9]:32768-60999", "fd00::9"),
    ],
)
def test_connections_of_an_address_end_with_the_last_flow_that_translates_to_it(
    switch, monkeypatch, form, source, address
):
    end, ended = switch.end_connections, []
    monkeypatch.setattr(switch, "end_connections", lambda *one: (ended.append(one), end(*one)))
    other = flow(0, 5, "ip", "ct(commit,zone=64000,nat(src=10.0.0.8)),NORMAL")
    apply(switch, [other, flow(0, 6, form, f"ct(commit,zone=64000,nat(src={source})),NORMAL")])
    assert ended == []
    apply(switch, [other])
    assert ended == [("br-ex", 64000, address)] * 2


@pytest.mark.parametrize("missing", range(0, len(FLOWS), 7))
def test_only_differences_are_written(vswitchd, switch, missing):
    few = FLOWS[:missing] + FLOWS[missing + 1 :]
    apply(switch, few)
    outcome = apply(switch, FLOWS)
    assert [change.action for change in outcome.changes] == ["create"]
    outcome = apply(switch, few)
    assert [(change.action, change.name.split()[:5]) for change in outcome.changes] == [
        ("delete", f"br-ex table {FLOWS[missing].table} priority {FLOWS[missing].priority}".split())
    ]


def test_changed_own_flow_is_restored_completely(vswitchd, switch):
    wanted = [flow(1, 10, "ip", "LOCAL")]
    apply(switch, wanted)
    vswitchd.ofctl("add-flow", "br-ex", "cookie=0xdeff105,table=1,priority=10,idle_timeout=300,ip,actions=drop")
    (change,) = apply(switch, wanted).changes
    assert (change.action, change.before["actions"], change.after["actions"]) == ("update", "drop", "LOCAL")
    assert change.before["options"] == "idle_timeout=300"
    assert not apply(switch, wanted).changed


def test_a_flow_with_another_cookie_of_ours_changes_its_cookie(switch):
    apply(switch, [flow(0, 5, "ip", "drop", cookie=0x304)])
    (change,) = apply(switch, [flow(0, 5, "ip", "drop")]).changes
    assert (change.before, change.after) == ({"cookie": "0x304"}, {"cookie": "0xdeff105"})


def test_bridges_with_stale_own_flows_are_found(vswitchd, switch):
    vswitchd.vsctl("add-br", "br-other", "--", "add-br", "br-foreign")
    for bridge in ("br-ex", "br-other", "br-int"):
        reconcile_flows(switch, [bridge], [Flow(bridge, 0, 5, "arp", "drop")], write=True)
    vswitchd.ofctl("add-flow", "br-foreign", "cookie=0x77,priority=5,arp,actions=drop")
    assert switch.bridges_with(OWN_COOKIES, without=("br-int",)) == {"br-ex", "br-other"}
    assert reconcile_flows(switch, ["br-other"], [], write=True).summary()["delete"] == 1
    assert switch.bridges_with(OWN_COOKIES, without=("br-int",)) == {"br-ex"}


def test_foreign_flows_stay_and_are_reported(vswitchd, switch):
    vswitchd.ofctl("add-flow", "br-ex", "cookie=0x77,table=1,priority=10,ip,in_port=1,actions=drop")
    outcome = apply(switch, FLOWS)
    assert [(item.kind, item.identity) for item in outcome.foreign] == [("flow", "0x77")]
    apply(switch)
    assert any("cookie=0x77" in line for line in dump(vswitchd))


def test_conflicting_foreign_flow_is_refused_before_any_write(vswitchd, switch):
    vswitchd.ofctl("add-flow", "br-ex", "cookie=0x77,table=1,priority=10,ip,actions=drop")
    before = dump(vswitchd)
    with pytest.raises(OpenFlowError, match=r"not Heddle's \(cookie 0x77"):
        apply(switch, [flow(0, 1, "ip", "drop"), flow(1, 10, "ip", "LOCAL")])
    assert dump(vswitchd) == before


def test_flow_changes_are_one_bundle(vswitchd, switch):
    """A transaction with an error in its last line leaves everything as it was."""
    apply(switch, [flow(1, 10, "ip", "LOCAL")])
    before = dump(vswitchd)
    lines = ["delete_strict cookie=0xdeff105/-1,table=1,priority=10,ip", "add table=1,priority=3,actions=group:99"]
    with pytest.raises(OpenFlowError):
        switch.write_flows("br-ex", lines)
    assert dump(vswitchd) == before


def test_flows_are_restored_after_a_vswitchd_restart(vswitchd, switch):
    extra = ([FloodPort("br-ex", PATCH, flood=False)], [StaticMac("br-ex", MAC, "br-ex")])
    assert len(apply(switch, FLOWS, *extra).changes) == len(FLOWS) + 2
    assert not apply(switch, FLOWS, *extra).changed
    vswitchd.restart()
    assert len(apply(switch, FLOWS, *extra).changes) == len(FLOWS) + 2
    assert not apply(switch, FLOWS, *extra).changed


def test_error_of_a_stopped_switch_has_no_timestamp(vswitchd, switch):
    """The service logs equal text once; the programs' warnings begin with the time."""
    stop(vswitchd.process)
    with pytest.raises(OpenFlowError, match="Does ovs-vswitchd run") as failed:
        switch.static_macs("br-ex")
    assert not re.search(r"\d\d:\d\d:\d\d", str(failed.value))


def test_flooding_is_disabled_on_a_port_and_enabled_again(vswitchd, switch):
    off, on = ([FloodPort("br-ex", PATCH, flood=value)] for value in (False, True))
    assert not apply(switch, [], on).changed
    assert apply(switch, [], off, write=False).changed
    assert apply(switch, [], off).changed
    assert vswitchd.ofctl("-O", "OpenFlow10", "dump-ports-desc", "br-ex").count("NO_FLOOD") == 1
    assert not apply(switch, [], off).changed
    (change,) = apply(switch, [], on).changes
    assert (change.before, change.after) == ({"flood": False}, {"flood": True})
    assert "NO_FLOOD" not in vswitchd.ofctl("-O", "OpenFlow10", "dump-ports-desc", "br-ex")


def test_a_static_mac_is_set_moved_and_kept(vswitchd, switch):
    local, far = [StaticMac("br-ex", MAC, "br-ex")], [StaticMac("br-ex", MAC, "eth0")]
    assert [change.action for change in apply(switch, [], [], local).changes] == ["create"]
    assert not apply(switch, [], [], local).changed
    (change,) = apply(switch, [], [], far).changes
    assert (change.action, change.before, change.after) == ("update", {"port": "br-ex"}, {"port": "eth0"})
    assert not apply(switch, [], [], far).changed


def test_late_patch_port_is_awaited(vswitchd, vswitch, switch):
    wanted = [flow(0, 9, "in_port={patch-late}", "drop")]
    polled = threading.Event()
    with vswitch.client() as client:

        class Slow(Switch):
            def ports(self):
                polled.set()
                return super().ports()

        def make():
            polled.wait(START_TIMEOUT)
            vswitchd.patch("patch-late")

        maker = threading.Thread(target=make)
        maker.start()
        try:
            outcome = apply(Slow(client, vswitchd.run), wanted, timeout=START_TIMEOUT)
        finally:
            maker.join()
    assert [change.name for change in outcome.changes] == ["br-ex table 0 priority 9 in_port={patch-late}"]
    assert not apply(switch, wanted).changed


def test_missing_port_is_named_and_nothing_is_written(vswitchd, switch):
    before = dump(vswitchd)
    flows = [flow(0, 9, "in_port={patch-never}", "drop"), flow(0, 8, "ip", "drop")]
    with pytest.raises(OpenFlowError, match=r"br-ex has no port patch-never after 0\.1 s"):
        apply(switch, flows, timeout=0.1)
    assert dump(vswitchd) == before
    assert len(apply(switch, flows, write=False).changes) == 2


@pytest.mark.parametrize(
    ("flows", "networks"),
    [
        ([Flow("br-ex", 0, 9, "in_port={patch-never}", "drop", "red")], {"red"}),
        (
            [Flow("br-ex", 0, 9, "in_port={patch-never}", "drop", "red"), flow(0, 8, "ip", "output:{patch-never}")],
            {"red"},
        ),
        ([Flow("br-ex", 0, 9, "in_port={patch-never}", "drop")], set()),
        ([Flow("br-ex", 0, 1, "tcp,tcp_dsst=7", "drop", "red")], {"red"}),
        ([Flow("br-ex", 0, 1, "tcp,tcp_dsst=7", "drop")], set()),
    ],
)
def test_errors_name_their_networks(switch, flows, networks):
    """So that they can be left out; a port without a network concerns all of them."""
    with pytest.raises(OpenFlowError) as refused:
        apply(switch, flows, timeout=0.1)
    assert refused.value.networks == networks


def test_a_missing_bridge_counts_as_empty_in_check_mode_and_is_an_error_otherwise(switch):
    lost = [Flow("br-lost", 0, 1, "ip", "drop")]
    outcome = reconcile_flows(switch, ["br-lost"], lost, write=False)
    assert outcome.changes == planned_flows(lost).changes
    assert len(outcome.changes) == 1
    with pytest.raises(OpenFlowError, match="no bridge br-lost"):
        reconcile_flows(switch, ["br-lost"], lost, write=True, timeout=0.1)


@pytest.mark.parametrize(
    ("flows", "message"),
    [
        ([flow(0, 1, "ip", "drop"), flow(0, 1, "tcp,tcp_dsst=7", "drop")], "priority 1 tcp,tcp_dsst=7: .*tcp_dsst"),
        ([flow(0, 1, "ip", "drop"), flow(0, 1, "ip", "outptu:1")], "priority 1 ip: .*outptu"),
        ([flow(0, 1, "dl_type=0x800", "drop"), flow(0, 1, "ip", "LOCAL")], "duplicate flow"),
        ([flow(0, 1, "ip", "drop", cookie=0x1)], "cookie 0x1 is not"),
    ],
)
def test_errors_name_the_flow(switch, flows, message):
    with pytest.raises(OpenFlowError, match=message):
        apply(switch, flows)


def test_the_same_flow_for_two_networks_is_written_once(switch):
    twice = [flow(0, 1, "dl_type=0x800", "drop"), Flow("br-ex", 0, 1, "ip", "drop", "blue")]
    assert len(apply(switch, twice).changes) == 1
    assert not apply(switch, twice).changed
