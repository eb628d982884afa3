# SPDX-License-Identifier: Apache-2.0
"""External connectivity of each network, in ovn-northd: two networks of each topology with equal subnets."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import layer2_switch, node_switch
from tests.live.conftest import complaints
from tests.live.topology.zone import Zone
from tests.pipeline import THREE_NODES, layer2, namespace, with_gateways, workload

GATEWAY_MAC = "0a:00:00:00:00:fe"
EXTERNAL = {4: "198.51.100.7", 6: "2001:db8:99::7"}
NEXT_HOPS = ("192.0.2.1", "2001:db8::1")


def layer3(name: str) -> str:
    return (
        "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n"
        f"metadata: {{name: net, namespace: {name}}}\nspec: {{topology: Layer3, layer3: {{role: Primary, "
        "subnets: [{cidr: 10.60.0.0/16, hostSubnet: 24}, {cidr: 'fd60::/60', hostSubnet: 64}]}}\n"
    )


MANIFESTS = "".join(
    [
        *(namespace(name) + layer2(name, "net", "10.50.0.0/16", "fd50::/64") for name in ("flat", "even")),
        *(namespace(name) + layer3(name) for name in ("deep", "also")),
        namespace("plain", primary=False),
        *(workload(name, "a", "node1") for name in ("flat", "even", "deep", "also", "plain")),
    ]
)
NETWORKS = ("flat_net", "even_net", "deep_net", "also_net", "default")


def make_zone(tools, northbound, southbound, hosts) -> Zone:
    encap = {"type": "geneve", "ip": "198.18.1.11", "chassis_name": "chassis-of-node1"}
    southbound.transact(
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
        {"op": "insert", "table": "Chassis", "row": {"name": "chassis-of-node1", "encaps": ["named-uuid", "encap"]}},
    )
    zone = Zone(tools, northbound, southbound, MANIFESTS, hosts)
    for row in southbound.rows("Port_Binding", "logical_port", "datapath"):
        if row["logical_port"].startswith("rtoe-"):
            for address in NEXT_HOPS:
                learned = {"logical_port": row["logical_port"], "ip": address, "mac": GATEWAY_MAC}
                southbound.transact(
                    {"op": "insert", "table": "MAC_Binding", "row": {**learned, "datapath": row["datapath"]}}
                )
    return zone


@pytest.fixture
def shared(tools, northbound, southbound, northd):
    return make_zone(tools, northbound, southbound, with_gateways("shared"))


@pytest.fixture
def local(tools, northbound, southbound, northd):
    return make_zone(tools, northbound, southbound, with_gateways("local"))


def start_of(zone, network):
    """The switch next to a network's workload on node1, the workload's interface, and the MAC of its gateway."""
    owner = "plain" if network == "default" else network.partition("_")[0]
    source = zone.interface(f"{owner}/a", network)
    flat = zone.plan["networks"][network]["topology"] == "Layer2"
    switch = layer2_switch(network) if flat else node_switch(network, "node1")
    port = f"{'trtos' if flat else 'rtos'}-{switch}"
    rows = zone.northbound.rows("Logical_Router_Port", "name", "mac")
    return switch, source, next(row["mac"] for row in rows if row["name"] == port)


def own_address(zone, network, family, side):
    """The network's masquerade address on the node; side 0: gateway router, 1: management port."""
    if network == "default":
        return {4: "192.0.2.11", 6: "2001:db8::b"}[family]
    number = 10 + 2 * zone.plan["networks"][network]["id"] - 1 + side
    return {4: f"169.254.0.{number}", 6: f"fd69::{number:x}"}[family]


def prefix_of(network):
    return "" if network == "default" else f"{network}_"


@pytest.mark.parametrize("family", [4, 6])
def test_external_packet_leaves_by_the_localnet_port_with_the_gateway_router_address(shared, family):
    seen = set()
    for network in NETWORKS:
        switch, source, mac = start_of(shared, network)
        trace = shared.trace(switch, source["port"], source, EXTERNAL[family], mac, family)
        own = own_address(shared, network, family, 0)
        assert f'output("breth1_{prefix_of(network)}node1")' in trace, trace
        assert f"ct_snat(ip{family}.src={own})" in trace, trace
        seen.add(own)
    assert len(seen) == len(NETWORKS)


@pytest.mark.parametrize("family", [4, 6])
def test_reply_to_the_gateway_router_reaches_the_workload(shared, family):
    remote = {"mac": GATEWAY_MAC, "addresses": list(EXTERNAL.values())}
    for network in NETWORKS:
        _switch, target, _mac = start_of(shared, network)
        address = next(item for item in target["addresses"] if (":" in item) == (family == 6)).partition("/")[0]
        external, port = f"ext_{prefix_of(network)}node1", f"breth1_{prefix_of(network)}node1"
        trace = shared.trace(external, port, remote, address, "02:00:00:00:00:01", family)
        assert f'output("{target["port"]}")' in trace, trace


@pytest.mark.parametrize("family", [4, 6])
def test_sctp_is_translated_as_other_transports(shared, family):
    """Packets of SCTP need a kernel with it (`tests/lab/test_gateways.py`); the logical flows do not."""
    remote = {"mac": GATEWAY_MAC, "addresses": list(EXTERNAL.values())}
    for network in NETWORKS:
        switch, source, mac = start_of(shared, network)
        port = f"breth1_{prefix_of(network)}node1"
        there = "sctp.src == 40000 && sctp.dst == 7001"
        trace = shared.trace(switch, source["port"], source, EXTERNAL[family], mac, family, there)
        assert f'output("{port}")' in trace, trace
        assert f"ct_snat(ip{family}.src={own_address(shared, network, family, 0)})" in trace, trace
        address = next(item for item in source["addresses"] if (":" in item) == (family == 6)).partition("/")[0]
        back = "sctp.src == 7001 && sctp.dst == 40000"
        external = f"ext_{prefix_of(network)}node1"
        trace = shared.trace(external, port, remote, address, "02:00:00:00:00:01", family, back)
        assert f'output("{source["port"]}")' in trace, trace


def test_a_gateway_router_drops_what_is_neither_ip_nor_arp(shared):
    """So the provider bridge gives such frames to one gateway router only, and not to those of all networks."""
    for network in NETWORKS:
        flow = f'inport == "breth1_{prefix_of(network)}node1" && eth.dst == 02:00:00:00:00:01 && eth.type == 0x88b5'
        trace = shared.tools.run(
            "ovn-trace", f"--db={shared.southbound.remote}", "--minimal", f"ext_{prefix_of(network)}node1", flow
        )
        assert "output" not in trace, trace


@pytest.mark.parametrize("family", [4, 6])
def test_in_local_mode_a_packet_leaves_by_the_management_port(local, family):
    for network in NETWORKS:
        switch, source, mac = start_of(local, network)
        trace = local.trace(switch, source["port"], source, EXTERNAL[family], mac, family)
        assert f'output("k8s-{prefix_of(network)}node1")' in trace, trace
        if network != "default":
            assert f"ct_snat(ip{family}.src={own_address(local, network, family, 1)})" in trace, trace


def test_adding_and_removing_external_connectivity_converges(tools, northbound, southbound, northd):
    zone = make_zone(tools, northbound, southbound, THREE_NODES)
    assert not [row for row in northbound.rows("Logical_Switch", "name") if row["name"].startswith("ext_")]
    before = northbound.dump()
    zone.hosts = with_gateways("shared")
    zone.apply(MANIFESTS)
    assert not zone.apply(MANIFESTS).changed
    assert len(northbound.rows("Static_MAC_Binding")) == 2 * (1 + 2 * 4)
    zone.hosts = {name: {**host, "gateway": {}} for name, host in THREE_NODES.items()}
    zone.apply(MANIFESTS)
    zone.apply(MANIFESTS)
    after = northbound.dump()
    assert {table: len(rows) for table, rows in after.items()} == {table: len(rows) for table, rows in before.items()}


def test_northd_logs_no_warnings(shared, folder):
    # Two addresses on a port with `lb_force_snat_ip` `router_ip` is what ovn-kubernetes has too.
    expected = ("requests same tunnel key 1", "deprecated", "considered as SNAT for load balancer")
    assert complaints(folder / "northd.log", *expected) == []
