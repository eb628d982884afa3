# SPDX-License-Identifier: Apache-2.0
"""Secondary networks: northd accepts them, and a traced packet goes where it must, with and without addresses."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import (
    layer2_switch,
    localnet_switch,
    node_switch,
)
from tests.live.topology.zone import Zone
from tests.pipeline import namespace, workload


def network(name, text):
    return (
        "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n"
        f"metadata: {{name: {name}, namespace: many}}\nspec: {text}\n"
    )


NETWORKS = {
    "flat": "{topology: Layer2, layer2: {role: Secondary, subnets: [10.77.0.0/24, 'fd00:10:77::/64']}}",
    "wire": "{topology: Layer2, layer2: {role: Secondary, ipam: {mode: Disabled}}}",
    "routed": "{topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.129.0.0/16, hostSubnet: 24}]}}",
}


def base(*networks):
    """Three workloads that select these networks."""
    return namespace("many", primary=False) + "".join(
        workload("many", name, node, ",".join(networks))
        for name, node in (("a", "node1"), ("b", "node1"), ("far", "node2"))
    )


MANIFESTS = base(*NETWORKS) + "".join(network(name, text) for name, text in NETWORKS.items())


@pytest.fixture
def zone(tools, northbound, southbound, northd):
    # What ovn-controller of this host would write: without its own chassis nothing is bound here.
    encap = {"type": "geneve", "ip": "198.18.1.11", "chassis_name": "chassis-of-node1"}
    southbound.transact(
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
        {"op": "insert", "table": "Chassis", "row": {"name": "chassis-of-node1", "encaps": ["named-uuid", "encap"]}},
    )
    return Zone(tools, northbound, southbound, MANIFESTS)


def traced(zone, name, source, target, family=4):
    here, there = zone.interface(f"many/{source}", f"many_{name}"), zone.interface(f"many/{target}", f"many_{name}")
    address = there["addresses"][0 if family == 4 else -1].partition("/")[0]
    return zone.trace(layer2_switch(f"many_{name}"), here["port"], here, address, there["mac"], family)


def test_secondary_networks_are_added_and_removed_without_residue(zone):
    before = zone.northbound.dump()
    assert not zone.apply(MANIFESTS).changed
    for gone in NETWORKS:
        others = {name: text for name, text in NETWORKS.items() if name != gone}
        zone.apply(base(*others) + "".join(network(name, text) for name, text in others.items()))
        names = str(zone.northbound.rows("Logical_Switch", "name")) + str(
            zone.northbound.rows("Logical_Router", "name")
        )
        assert f"many_{gone}" not in names
    zone.apply("")
    left = {row["name"] for row in zone.northbound.rows("Logical_Switch", "name")}
    assert not [name for name in left if name.startswith("many")]
    assert [row["name"] for row in before["Logical_Router"]].count("many_routed_ovn_cluster_router") == 1


def test_tunnel_keys_of_switch_and_ports(zone):
    keys = {
        dict(row["external_ids"][1])["name"]: row["tunnel_key"]
        for row in zone.southbound.rows("Datapath_Binding", "external_ids", "tunnel_key")
    }
    plan = zone.plan["networks"]
    for name, switch in (
        ("flat", "many_flat_ovn_layer2_switch"),
        ("wire", "many_wire_ovn_layer2_switch"),
        ("routed", "many_routed_transit_switch"),
    ):
        assert [keys[switch]] == plan[f"many_{name}"]["tunnel_keys"] == [16711683 + plan[f"many_{name}"]["id"]]
    ports = {
        row["logical_port"]: (row["type"], row["tunnel_key"])
        for row in zone.southbound.rows("Port_Binding", "logical_port", "type", "tunnel_key")
    }
    assert [ports[f"many.flat_many_{name}"] for name in ("a", "b", "far")] == [("", 1), ("", 2), ("remote", 3)]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("target", ["b", "far"])
def test_layer2_reaches_this_and_the_other_node(zone, target, family):
    seen = traced(zone, "flat", "a", target, family)
    assert seen.count("output(") == 1
    assert f'output("many.flat_many_{target}")' in seen, seen


def test_layer3_reaches_the_other_node_over_the_transit_switch(zone):
    a, far = (zone.interface(f"many/{name}", "many_routed") for name in ("a", "far"))
    seen = zone.trace(
        node_switch("many_routed", "node1"), a["port"], a, far["addresses"][0].partition("/")[0], "0a:58:0a:81:00:01"
    )
    assert 'output("many_routed_tstor-node2")' in seen, seen


@pytest.mark.parametrize(("address", "target"), [("192.0.2.7", "b"), ("10.77.0.1", "far")])
def test_without_ipam_any_address_passes(zone, address, target):
    a, there = (zone.interface(f"many/{name}", "many_wire") for name in ("a", target))
    seen = zone.trace(
        layer2_switch("many_wire"), a["port"], {**a, "addresses": [f"{address}/24"]}, "192.0.2.8", there["mac"]
    )
    assert f'output("many.wire_many_{target}")' in seen, seen


def test_without_ipam_another_mac_does_not_pass(zone):
    a, b = (zone.interface(f"many/{name}", "many_wire") for name in "ab")
    forged = {**a, "mac": "02:00:00:00:00:99", "addresses": ["192.0.2.7/24"]}
    seen = zone.trace(layer2_switch("many_wire"), a["port"], forged, "192.0.2.8", b["mac"])
    assert "output(" not in seen, seen


def test_a_port_with_static_addresses_sends_from_them_only(zone):
    text = namespace("many", primary=False) + network("wire", NETWORKS["wire"])
    for name, node, address in (
        ("a", "node1", "192.0.2.7"),
        ("b", "node1", "192.0.2.8"),
        ("far", "node2", "192.0.2.9"),
    ):
        text += workload("many", name, node, [{"name": "wire", "ips": [f"{address}/24"]}])
    zone.apply(text)
    assert not zone.apply(text).changed
    a = zone.interface("many/a", "many_wire")
    for target, port in (("b", "many.wire_many_b"), ("far", "many.wire_many_far")):
        assert f'output("{port}")' in traced(zone, "wire", "a", target)
    b = zone.interface("many/b", "many_wire")
    forged = {**a, "addresses": ["192.0.2.66/24"]}
    assert "output(" not in zone.trace(layer2_switch("many_wire"), a["port"], forged, "192.0.2.8", b["mac"])


@pytest.mark.parametrize("target", ["b", "far"])
def test_two_interfaces_of_one_network_are_two_ports(zone, target):
    text = base("flat", "flat") + network("flat", NETWORKS["flat"])
    zone.apply(text)
    assert not zone.apply(text).changed
    one, other = (
        [end for end in zone.plan["workloads"][f"many/{name}"]["interfaces"] if end["network"] == "many_flat"]
        for name in ("a", target)
    )
    assert [end["port"] for end in other] == [f"many.flat_many_{target}", f"many.flat.1_many_{target}"]
    for here, there in ((one[0], other[1]), (one[1], other[0])):
        address = there["addresses"][0].partition("/")[0]
        seen = zone.trace(layer2_switch("many_flat"), here["port"], here, address, there["mac"])
        assert f'output("{there["port"]}")' in seen, seen


def test_a_workload_of_another_namespace_is_on_the_switch(zone):
    guest = namespace("other", primary=False) + workload("other", "guest", "node1", "many/flat")
    zone.apply(base("flat") + network("flat", NETWORKS["flat"]) + guest)
    here = zone.interface("other/guest", "many_flat")
    assert here["port"] == "many.flat_other_guest"
    there = zone.interface("many/b", "many_flat")
    address = there["addresses"][0].partition("/")[0]
    seen = zone.trace(layer2_switch("many_flat"), here["port"], here, address, there["mac"])
    assert 'output("many.flat_many_b")' in seen, seen


def test_a_localnet_switch_leads_to_the_physical_network_with_its_tag(zone):
    text = base("plant") + (
        "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: plant}\n"
        "spec: {namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Secondary, "
        "physicalNetworkName: factory, subnets: [10.66.0.0/24], vlan: {mode: Access, access: {id: 100}}}}}\n"
    )
    zone.apply(text)
    assert not zone.apply(text).changed
    name = "cluster_udn_plant_ovn_localnet_port"
    bound = next(
        row
        for row in zone.southbound.rows("Port_Binding", "logical_port", "type", "tag", "options")
        if row["logical_port"] == name
    )
    assert (bound["type"], bound["tag"]) == ("localnet", 100)
    assert dict(bound["options"][1])["network_name"] == "factory"
    a, b, far = (zone.interface(f"many/{one}", "cluster_udn_plant") for one in ("a", "b", "far"))
    for there, port in ((b, b["port"]), (far, name)):
        address = there["addresses"][0].partition("/")[0]
        seen = zone.trace(localnet_switch("cluster_udn_plant"), a["port"], a, address, there["mac"])
        assert f'output("{port}")' in seen, seen
