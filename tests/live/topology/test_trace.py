# SPDX-License-Identifier: Apache-2.0
"""What is rendered is accepted by ovn-northd, and a traced packet arrives where it must and nowhere else."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import layer2_switch, node_switch
from tests.live.conftest import complaints, wait_for
from tests.live.topology.zone import Zone
from tests.pipeline import layer2, layer3, namespace, workload

MANIFESTS = (
    namespace("two") + layer2("two", "net", "203.203.0.0/16", "2010:100:200::/60")
    + workload("two", "a", "node1") + workload("two", "b", "node1") + workload("two", "far", "node2")
    + namespace("six") + layer2("six", "net", "fd06::/64") + workload("six", "a", "node1")
    + namespace("three") + layer3("three", "net", "10.128.0.0/16", 24)
    + workload("three", "a", "node1") + workload("three", "far", "node3")
    + namespace("plain", primary=False) + workload("plain", "a", "node1") + workload("plain", "b", "node1")
)  # fmt: skip


@pytest.fixture
def zone(tools, northbound, southbound, northd):
    # What ovn-controller of this host would write: without its own chassis nothing is bound here.
    encap = {"type": "geneve", "ip": "198.18.1.11", "chassis_name": "chassis-of-node1"}
    southbound.transact(
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
        {"op": "insert", "table": "Chassis", "row": {"name": "chassis-of-node1", "encaps": ["named-uuid", "encap"]}},
    )
    return Zone(tools, northbound, southbound, MANIFESTS)


def test_the_second_apply_writes_nothing_and_removal_leaves_nothing(zone):
    assert not zone.apply(MANIFESTS).changed
    zone.apply("")
    names = {row["name"] for row in zone.northbound.rows("Logical_Switch", "name")}
    assert names == {"node1", "join", "transit_switch"}
    zone.apply(MANIFESTS)
    assert not zone.apply(MANIFESTS).changed


def test_remote_ports_are_remote_and_keys_are_those_requested(zone):
    rows = zone.southbound.rows("Port_Binding", "logical_port", "type", "tunnel_key")
    ports = {row["logical_port"]: (row["type"], row["tunnel_key"]) for row in rows}
    assert ports["trtor-GR_two_net_node2"] == ("remote", 13)
    assert ports["trtor-GR_two_net_node1"] == ("patch", 12)
    assert ports["trtos-two_net_ovn_layer2_switch"] == ("patch", 1)
    assert ports["two.net_two_far"][0] == "remote"
    assert ports["tstor-node3"] == ("remote", 4)
    keys = {row["tunnel_key"] for row in zone.southbound.rows("Datapath_Binding", "tunnel_key")}
    wanted = {key for network in zone.plan["networks"].values() for key in network["tunnel_keys"]}
    assert wanted <= keys


def test_layer2_neighbours_reach_each_other_in_both_families(zone):
    a, b = (zone.interface(f"two/{name}", "two_net") for name in "ab")
    for family, target in ((4, b["addresses"][0]), (6, b["addresses"][1])):
        seen = zone.trace(layer2_switch("two_net"), a["port"], a, target.partition("/")[0], b["mac"], family)
        assert f'output("{b["port"]}")' in seen, seen


def test_layer2_traffic_for_another_node_leaves_through_its_remote_port(zone):
    a, far = zone.interface("two/a", "two_net"), zone.interface("two/far", "two_net")
    seen = zone.trace(layer2_switch("two_net"), a["port"], a, far["addresses"][0].partition("/")[0], far["mac"])
    assert f'output("{far["port"]}")' in seen, seen


def test_the_gateway_answers_and_join_addresses_are_reached_over_the_transit_router(zone):
    a = zone.interface("two/a", "two_net")
    gateway_mac = "0a:58:cb:cb:00:01"
    assert "two.net_two_a" in zone.trace(layer2_switch("two_net"), a["port"], a, "203.203.0.1", gateway_mac)
    remote = zone.trace(layer2_switch("two_net"), a["port"], a, "100.65.0.3", gateway_mac)
    assert 'output("trtor-GR_two_net_node2")' in remote, remote


def test_the_transit_router_learns_little_and_forgets_it(zone):
    """OVN writes what it knows of these options into the Southbound database, where ovn-controller reads them."""
    datapaths = [dict(row["external_ids"][1]) for row in zone.southbound.rows("Datapath_Binding", "external_ids")]
    for network in ("two", "six"):
        (router,) = (one for one in datapaths if one["name"] == f"{network}_net_transit_router")
        assert router["always_learn_from_arp_request"] == "false"
        assert router["mac_binding_age_threshold"] == "300"


def test_layer3_traffic_for_another_node_crosses_the_transit_switch(zone):
    a, far = zone.interface("three/a", "three_net"), zone.interface("three/far", "three_net")
    seen = zone.trace(
        node_switch("three_net", "node1"), a["port"], a, far["addresses"][0].partition("/")[0], "0a:58:0a:80:00:01"
    )
    assert 'output("three_net_tstor-node3")' in seen, seen


def test_a_forged_source_address_is_dropped(zone):
    a, b = (zone.interface(f"two/{name}", "two_net") for name in "ab")
    forged = {**a, "addresses": ["203.203.9.9/16"]}
    seen = zone.trace(layer2_switch("two_net"), a["port"], forged, b["addresses"][0].partition("/")[0], b["mac"])
    assert "output" not in seen, seen


def test_the_default_network_is_open_between_plain_workloads_and_locked_for_the_others(zone):
    plain_a, plain_b = zone.interface("plain/a", "default"), zone.interface("plain/b", "default")
    locked = zone.interface("two/a", "default")
    open_way = zone.trace("node1", plain_a["port"], plain_a, plain_b["addresses"][0].partition("/")[0], plain_b["mac"])
    assert f'output("{plain_b["port"]}")' in open_way, open_way
    for source, target in ((plain_a, locked), (locked, plain_a)):
        seen = zone.trace("node1", source["port"], source, target["addresses"][0].partition("/")[0], target["mac"])
        assert "output" not in seen, seen


def test_northd_logs_no_warnings(zone, folder):
    wait_for(lambda: (folder / "northd.log").exists(), "the log of ovn-northd")
    # Of a distributed gateway port and its chassisredirect twin only one can have the key; northd says so and the
    # port itself wins (ovn-kubernetes has the same).
    assert complaints(folder / "northd.log", "requests same tunnel key 1", "deprecated") == []
