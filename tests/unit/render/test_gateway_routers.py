# SPDX-License-Identifier: Apache-2.0
"""What gateway routers have besides their names: MACs, ports of translated connections, nodes of remote ones."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis.chassis import local_ports
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import EVERYWHERE, layer2, layer3, namespace, plan_of, upgrade_stage, with_gateways

IPV6_ONLY = {
    "Layer2": namespace("red") + layer2("red", "net", "fd50::/64"),
    "Layer3": namespace("red") + layer3("red", "net", "fd60::/48", 64),
}
INWARD_PORTS = {"Layer2": "rtotr-GR_red_net_node1", "Layer3": "rtoj-GR_red_net_node1"}


def rows_of(plan: dict, table: str, node: str = "node1") -> dict[str, dict]:
    return {row.key: row.columns for row in render_northbound(plan, node) if row.table == table}


@pytest.mark.parametrize("topology", IPV6_ONLY)
def test_the_mac_is_that_of_the_ipv4_join_address_also_in_a_network_without_ipv4(topology):
    port = rows_of(plan_of(IPV6_ONLY[topology], settings=EVERYWHERE), "Logical_Router_Port")[INWARD_PORTS[topology]]
    assert port["mac"] == "0a:58:64:41:00:02"  # 100.65.0.2
    assert all(":" in address for address in port["networks"])


def test_the_network_s_own_ipv4_join_subnet_counts():
    text = IPV6_ONLY["Layer2"].replace("role: Primary", "role: Primary, joinSubnets: [100.70.0.0/16]")
    port = rows_of(plan_of(text, settings=EVERYWHERE), "Logical_Router_Port")[INWARD_PORTS["Layer2"]]
    assert port["mac"] == "0a:58:64:46:00:02"


def test_a_cluster_without_ipv4_has_macs_of_ipv6_join_addresses():
    settings = {
        "cluster_subnets": ["fd00:10:244::/48/64"], "service_subnets": ["fd00:10:96::/112"],
        "join_subnets": ["fd98::/64"],
    }  # fmt: skip
    plans = [plan_of(IPV6_ONLY["Layer3"], settings={**EVERYWHERE, **more}) for more in ({}, settings)]
    four, six = (rows_of(plan, "Logical_Router_Port")[INWARD_PORTS["Layer3"]] for plan in plans)
    assert six["networks"] == four["networks"]
    assert six["mac"] != four["mac"]


def test_all_nodes_agree_on_the_mac_in_the_old_topology():
    plan = upgrade_stage(IPV6_ONLY["Layer2"])
    own = rows_of(plan, "Logical_Router_Port", "node2")["rtos-red_net_ovn_layer2_switch"]["mac"]
    (seen,) = rows_of(plan, "Logical_Switch_Port")["stor-red_net_ovn_layer2_switch_node2"]["addresses"]
    assert seen.split()[0] == own == "0a:58:64:41:00:03"


def test_a_remote_gateway_router_on_the_switch_names_its_node():
    plan = upgrade_stage(namespace("red") + layer2("red", "net", "10.50.0.0/16"))
    ports = rows_of(plan, "Logical_Switch_Port")
    for node in ("node2", "node3"):
        assert ports[f"stor-red_net_ovn_layer2_switch_{node}"]["external_ids"] == {
            "k8s.ovn.org/network": "red_net", "k8s.ovn.org/topology": "layer2", "k8s.ovn.org/node": node,
        }  # fmt: skip


@pytest.mark.parametrize("text", [*IPV6_ONLY.values(), namespace("red") + layer2("red", "net", "10.50.0.0/16")])
def test_translated_connections_get_the_ports_that_the_host_gives_its_own(text):
    plan = plan_of(text, hosts=with_gateways("shared", translated_ports="20000-29999"), settings=EVERYWHERE)
    ranges = {row["external_port_range"] for row in rows_of(plan, "NAT").values()}
    assert ranges == {"20000-29999"}


def test_a_host_that_did_not_say_has_linux_s_default_ports():
    ranges = {row["external_port_range"] for row in rows_of(plan_of(""), "NAT").values()}
    ranges |= {
        row["external_port_range"] for row in rows_of(plan_of("", hosts=with_gateways("shared")), "NAT").values()
    }
    assert ranges == {"32768-60999"}


def test_the_range_is_read_from_the_kernel(tmp_path):
    setting = tmp_path / "ip_local_port_range"
    setting.write_text("20000\t29999\n")
    assert local_ports(str(setting)) == "20000-29999"
    first, last = map(int, local_ports().split("-"))
    assert 0 < first < last < 65536


def entered(kind: str, address: str, where: str = "red") -> str:
    """A Service whose endpoint an EndpointSlice lists."""
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: {where}}}\n"
        f"spec: {{type: {kind}, ports: [{{port: 80}}]}}\n"
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        f"metadata: {{name: web, namespace: {where}, labels: {{kubernetes.io/service-name: web}}}}\n"
        f"addressType: IPv4\nports: [{{port: 80}}]\nendpoints: [{{addresses: [{address!r}]}}]\n"
    )


RED = {
    "Layer2": namespace("red") + layer2("red", "net", "10.50.0.0/16"),
    "Layer3": namespace("red") + layer3("red", "net", "10.50.0.0/16", 24),
}


@pytest.mark.parametrize(
    ("kind", "address", "is_there"),
    [("NodePort", "198.51.100.9", True), ("NodePort", "10.50.0.9", False), ("ClusterIP", "198.51.100.9", False)],
)
@pytest.mark.parametrize("topology", [*RED, "Layer2 without a transit router"])
def test_what_services_lead_beyond_a_network_leaves_with_its_address(topology, kind, address, is_there):
    """Before the address that OVN gives what it balances, which other networks have as well."""
    text = RED[topology.partition(" ")[0]] + entered(kind, address)
    old = {"layer2_topology": "gateway-router"} if topology not in RED else {}
    plan = plan_of(text, hosts=with_gateways("shared"), settings={**EVERYWHERE, **old})
    found = [row for row in rows_of(plan, "NAT").values() if row["logical_ip"] == "0.0.0.0/0"]
    match = 'flags.force_snat_for_lb == 1 && outport == "rtoe-GR_red_net_node1"'
    assert [(row["external_ip"], row["match"]) for row in found] == [("169.254.0.11", match)] * is_there


def test_what_services_lead_beyond_the_default_network_leaves_with_the_node_s_address():
    text = namespace("red", primary=False) + entered("NodePort", "198.51.100.9")
    rows = rows_of(plan_of(text, hosts=with_gateways("shared")), "NAT").values()
    assert not [row for row in rows if row.get("match")]
