# SPDX-License-Identifier: Apache-2.0
"""Drift of one host is grouped by cause, and the terminal gets a few lines of it."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Parent, Row
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.causes import Host, group, parents_of
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.tables import (
    MOST_HOST_LINES,
    cause_lines,
    foreign_lines,
)

PATCH = "patch-br-ex_red_red_node1-to-br-int"
NETWORK = "red_red"
STOPPED = "ovn-controller does not run: systemctl start ovn-controller"
OTHER = "the system-id of Open vSwitch is new"


def entry(substrate: str, kind: str, name: str, expected=None, found=None, column=None, network=NETWORK) -> dict:
    return {
        "substrate": substrate, "kind": kind, "name": name, "network": network, "column": column,
        "expected": expected, "found": found,
    }  # fmt: skip


def flow(match: str, actions: str = "drop", bridge: str = "br-ex") -> dict:
    return entry("openflow", "flow", f"{bridge} table 0 priority 10 {match}", {"actions": actions})


def stale(match: str, actions: str = "drop") -> dict:
    name = f"br-ex table 0 priority 10 {match}"
    return entry("openflow", "flow", name, None, {"actions": actions}, network="")


MAPPING = entry(
    "Open_vSwitch", "Open_vSwitch", "host", {"ovn-bridge-mappings": "physnet:br-ex"}, {}, "external_ids", network=""
)
OTHER_MAPPING = {**MAPPING, "expected": {"ovn-bridge-mappings": "plant:br-plant"}}
SETTING = {**MAPPING, "expected": {"ovn-monitor-all": "true"}}
BRIDGE = entry("Open_vSwitch", "Bridge", "br-ex", {"external_ids": {"bridge-uplink": "eth2"}}, network="")
MANAGEMENT = entry("Open_vSwitch", "Port", "ovn-k8s-mp1", {"name": "ovn-k8s-mp1"})
LINK_DOWN = entry("kernel", "link", "ovn-k8s-mp1", True, False, "up")
LINK_VRF = entry("kernel", "link", "ovn-k8s-mp1", "mp1-udn-vrf", "", "vrf")
LINK_MTU = entry("kernel", "link", "ovn-k8s-mp1", 1400, 1500, "mtu")
VRF = entry("kernel", "VRF", "mp1-udn-vrf", {"table": 1007})
VRF_WITHOUT_LINK = entry("kernel", "VRF", "mp1-udn-vrf", {"table": "index of ovn-k8s-mp1 + 1000"})
VRF_GONE = entry("kernel", "VRF", "mp1-udn-vrf", None, {"table": 1007})
ROUTE = entry("kernel", "route", "mp1-udn-vrf 10.96.0.0/16", {"via": "169.254.0.4", "device": "br-ex"})
UNREACHABLE = entry("kernel", "route", "mp1-udn-vrf 0.0.0.0/0 metric 4278198272", {"kind": "unreachable"})
RULE = entry("kernel", "rule", "IPv4 2000 mark 0x1003 table mp1-udn-vrf", {"table": "of mp1-udn-vrf"})
OLD_RULE = entry("kernel", "rule", "IPv4 2000 mark 0x1003 table 1007", None, {"table": 1007}, network="")
ADDRESS = entry("kernel", "address", "br-ex 169.254.0.2/17", {"deprecated": False}, network="")
SOURCE_ROUTE = entry("kernel", "route", "10.96.0.0/16", {"device": "br-ex", "source": "169.254.0.2"}, network="")
NEIGHBOUR = entry("kernel", "neighbour", "ovn-k8s-mp1 10.128.0.1", {"mac": "0a:58:0a:80:00:01"})
SYSCTL = entry("kernel", "sysctl", "net/ipv4/conf/ovn-k8s-mp1/rp_filter", "2", "", "value")
SWITCH = entry("OVN_Northbound", "Logical_Switch", "red_red_ovn_layer2_switch", {"name": "red_red_ovn_layer2_switch"})
PORT = entry("OVN_Northbound", "Logical_Switch_Port", "red.red_red_red1", {"name": "red.red_red_red1"})
PORT_VALUE = {**PORT, "column": "addresses", "expected": ["a"], "found": ["unknown"]}
DHCP = entry("OVN_Northbound", "DHCP_Options", "red_red/v4", {"cidr": "10.128.0.0/16"})
DHCP_PORT = {**PORT, "column": "dhcpv4_options", "expected": ["DHCP_Options/red_red/v4"], "found": []}
LOCALNET = entry("OVN_Northbound", "Logical_Switch_Port", "br-ex_red_red_node1", {"type": "localnet"})
ROUTER_PORT = entry("OVN_Northbound", "Logical_Router_Port", "rtoj-GR_red", {"mac": "m"})
BINDING = entry("OVN_Northbound", "Static_MAC_Binding", "rtoj-GR_red 10.0.0.1", {"logical_port": "rtoj-GR_red"})
INNER_LINK = entry("kernel", "link", "red_red1/eth0", True, False, "up")
INNER_ROUTES = entry("kernel", "routes", "red_red1/eth0", ["0.0.0.0/0 via 10.0.0.1"], [], "routes")
FLOOD = entry("openflow", "port", f"br-ex {PATCH}", False, True, "flood")
MAC = entry("openflow", "static MAC", "br-ex 02:00:00:00:00:01", {"port": "br-ex"}, network="")
UPLINK = entry("Open_vSwitch", "Port", "eth2", {"name": "eth2"}, network="")
INTERFACE = entry("Open_vSwitch", "Interface", "ovn-k8s-mp1", {"name": "ovn-k8s-mp1"})
OLD_SWITCH = entry("OVN_Northbound", "Logical_Switch", "old_switch", None, {"name": "old_switch"}, network="old")

PARENTS = {
    ("Logical_Switch_Port", "red.red_red_red1"): ("Logical_Switch", "red_red_ovn_layer2_switch"),
    ("Port", "ovn-k8s-mp1"): ("Bridge", "br-int"),
}
PORTS = {"br-ex": {"br-ex": "LOCAL", "eth2": "1"}, "br-int": {"br-int": "LOCAL"}}
THERE = Host(PARENTS, {"br-ex": {**PORTS["br-ex"], PATCH: "5"}}, frozenset({NETWORK, "default"}))
ABSENT = Host(PARENTS, PORTS, frozenset({NETWORK, "default"}))
ON_PATCH = flow(f"in_port={{{PATCH}}}")
TO_PATCH = flow("dl_dst=02:00:00:00:00:01", f"output:{{{PATCH}}},NORMAL")
STALE = stale("in_port=5,dl_src=02:00:00:00:00:01", "NORMAL")
STALE_OUTPUT = stale("dl_dst=02:00:00:00:00:01", "output:5,NORMAL")
STALE_FLOODED = stale("arp,in_port={eth2},dl_dst=ff:ff:ff:ff:ff:ff", "output:5,NORMAL")
LOCAL_FLOW = flow("in_port=LOCAL", "output:{eth2}")


@pytest.mark.parametrize(
    ("cause", "effect", "host"),
    [
        (MAPPING, ON_PATCH, ABSENT), (MAPPING, TO_PATCH, ABSENT), (MAPPING, FLOOD, ABSENT),
        (MAPPING, STALE, ABSENT), (MAPPING, STALE_OUTPUT, ABSENT), (MAPPING, STALE_FLOODED, ABSENT),
        (BRIDGE, ON_PATCH, ABSENT), (BRIDGE, LOCAL_FLOW, ABSENT), (BRIDGE, MAC, ABSENT), (BRIDGE, FLOOD, ABSENT),
        (BRIDGE, UPLINK, ABSENT), (BRIDGE, UPLINK | {"name": "br-ex"}, ABSENT),
        (LOCALNET, ON_PATCH, ABSENT),
        (MANAGEMENT, INTERFACE, ABSENT), (MANAGEMENT, LINK_DOWN, ABSENT), (MANAGEMENT, LINK_VRF, ABSENT),
        (LINK_DOWN, NEIGHBOUR, ABSENT), (LINK_DOWN, SYSCTL, ABSENT), (LINK_DOWN, VRF_WITHOUT_LINK, ABSENT),
        (LINK_VRF, NEIGHBOUR, ABSENT),
        (VRF, ROUTE, ABSENT), (VRF, UNREACHABLE, ABSENT), (VRF, RULE, ABSENT), (VRF, LINK_VRF, ABSENT),
        (VRF_GONE, OLD_RULE, ABSENT), (ADDRESS, SOURCE_ROUTE, ABSENT), (INNER_LINK, INNER_ROUTES, ABSENT),
        (SWITCH, PORT, ABSENT), (DHCP, DHCP_PORT, ABSENT), (ROUTER_PORT, BINDING, ABSENT),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reverse", [False, True])
def test_what_explains_what(cause, effect, host, reverse) -> None:
    drift = [effect, cause] if reverse else [cause, effect]
    causes, places = group(drift, host)
    assert places == [0, 0]
    assert [one[key] for one in causes for key in cause] == list(cause.values())
    assert (causes[0]["drift"], causes[0]["kinds"]) == (2, {f"{effect['substrate']} {effect['kind']}": 1})


@pytest.mark.parametrize(
    ("one", "other", "host"),
    [
        # The port is there, so its flows were deleted by hand.
        (MAPPING, ON_PATCH, THERE), (MAPPING, STALE, THERE), (LOCALNET, ON_PATCH, THERE),
        (MAPPING, LOCAL_FLOW, ABSENT), (SETTING, ON_PATCH, ABSENT), (OTHER_MAPPING, ON_PATCH, ABSENT),
        (MAPPING, flow(f"in_port={{{PATCH}}}", bridge="br-plant"), Host(ports={"br-plant": {}})),
        (VRF, ADDRESS, ABSENT), (VRF_GONE, ROUTE | {"name": "10.96.0.0/16"}, ABSENT), (LINK_MTU, NEIGHBOUR, ABSENT),
        (SWITCH, PORT_VALUE, ABSENT), (SWITCH, ROUTER_PORT, ABSENT), (BRIDGE, MANAGEMENT, ABSENT),
        (ADDRESS, NEIGHBOUR, ABSENT), (INNER_LINK, INNER_ROUTES | {"name": "red_red2/eth0"}, ABSENT),
    ],
)  # fmt: skip
def test_what_does_not_explain_what(one, other, host) -> None:
    assert len(set(group([one, other], host)[1])) == 2


def test_a_chain_ends_at_what_explains_all_of_it() -> None:
    chain = [RULE, ROUTE, VRF_WITHOUT_LINK, LINK_VRF, LINK_DOWN, INTERFACE, MANAGEMENT]
    causes, places = group(chain, ABSENT)
    assert set(places) == {0}
    assert (causes[0]["name"], causes[0]["kind"], causes[0]["drift"]) == ("ovn-k8s-mp1", "Port", len(chain))


def test_links_and_vrfs_that_name_each_other_do_not_go_in_circles() -> None:
    _causes, places = group([VRF_WITHOUT_LINK, LINK_VRF], ABSENT)
    assert set(places) == {0}


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({"stopped": {"ovn-controller": STOPPED}}, STOPPED),
        ({"other_chassis": OTHER}, OTHER),
        ({"stopped": {"ovn-ovsdb-server-nb": "x"}}, "Open_vSwitch patch port br-ex " + PATCH + ": missing"),
        ({}, "Open_vSwitch patch port br-ex " + PATCH + ": missing"),
    ],
)
def test_what_is_no_drift_itself_can_be_the_cause(known, line) -> None:
    causes, places = group([ON_PATCH, TO_PATCH], Host(PARENTS, PORTS, frozenset({NETWORK}), **known))
    assert places == [0, 0]
    assert cause_lines({"causes": causes}) == [f"{line}; explains 2 more: openflow flow 2"]


def test_what_is_left_of_a_network_that_is_not_in_the_plan_has_one_cause() -> None:
    port = {**OLD_SWITCH, "kind": "Logical_Switch_Port", "name": "old.p"}
    causes, places = group([OLD_SWITCH, port], ABSENT)
    assert places == [0, 0]
    assert cause_lines({"causes": causes})[0].startswith("plan network old: not in the plan; explains 2 more: ")


def test_parents_have_the_names_that_changes_have() -> None:
    rows = [
        Row("Bridge", "br-int", {}, match={"name": "br-int"}),
        Row("Logical_Switch", "key", {"name": "switch"}),
        Row("Logical_Switch_Port", "p", {"name": "port"}, parent=Parent("Logical_Switch", "key", "ports")),
        Row("Port", "mp", {"name": "mp"}, parent=Parent("Bridge", "br-int", "ports")),
    ]
    assert parents_of(rows) == {
        ("Logical_Switch_Port", "port"): ("Logical_Switch", "switch"), ("Port", "mp"): ("Bridge", "br-int"),
    }  # fmt: skip


def test_ten_thousand_entries_of_one_cause_are_one_line_and_none_is_lost() -> None:
    patches = [f"patch-br-ex_net{number}_node1-to-br-int" for number in range(2000)]
    drift = [MAPPING, PORT_VALUE]
    for number, patch in enumerate(patches):
        drift += [
            flow(f"in_port={{{patch}}}"), flow("arp", f"output:{{{patch}}}"), stale(f"in_port={number + 10}"),
            stale("ip", f"output:{number + 10}"), entry("openflow", "port", f"br-ex {patch}", False, True, "flood"),
        ]  # fmt: skip
    causes, places = group(drift, ABSENT)
    assert len(drift) == 10_002
    assert len(places) == len(drift)
    assert sum(cause["drift"] for cause in causes) == len(drift)
    assert cause_lines({"causes": causes}) == [
        "Open_vSwitch Open_vSwitch host: external_ids: expected {ovn-bridge-mappings=physnet:br-ex}, found {}; "
        "explains 10000 more: openflow flow 8000, openflow port 2000",
        "OVN_Northbound Logical_Switch_Port red.red_red_red1 (network red_red): addresses: expected [a], "
        "found [unknown]",
    ]


def test_many_causes_that_are_alike_have_one_line() -> None:
    drift = [entry("OVN_Northbound", "Logical_Switch_Port", f"p{number}", {}) for number in range(9_999)]
    causes, _places = group([*drift, SWITCH], ABSENT)
    assert cause_lines({"causes": causes}) == [
        "OVN_Northbound Logical_Switch_Port: 9999 missing (p0, p1, ...)",
        "OVN_Northbound Logical_Switch red_red_ovn_layer2_switch (network red_red): missing",
    ]


@pytest.mark.parametrize("count", [MOST_HOST_LINES - 1, MOST_HOST_LINES, MOST_HOST_LINES + 1, 10_000])
def test_a_host_has_no_more_lines_than_the_limit_and_the_last_one_counts_the_rest(count) -> None:
    drift = [entry("OVN_Northbound", f"Table_{number}", "row", {}) for number in range(count)]
    causes, _places = group(drift, ABSENT)
    lines = cause_lines({"causes": causes})
    assert len(lines) == min(count, MOST_HOST_LINES)
    if count > MOST_HOST_LINES:
        left = count - MOST_HOST_LINES + 1
        assert lines[-1] == f"and {left} more causes of {left} entries"
    foreign = [{"substrate": "openflow", "kind": "flow", "name": f"f{number}"} for number in range(count)]
    lines = foreign_lines({"foreign": foreign})
    assert len(lines) == min(count, MOST_HOST_LINES)
    if count > MOST_HOST_LINES:
        assert lines[-1] == f"and {count - MOST_HOST_LINES + 1} more: openflow flow {count - MOST_HOST_LINES + 1}"
