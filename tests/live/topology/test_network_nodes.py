# SPDX-License-Identifier: Apache-2.0
"""Networks of one workload in the zones of three nodes: northd has them where one of their workloads runs."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import layer2_switch
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.live.topology.zone import Zone
from tests.pipeline import layer2, layer3, namespace, stored, with_gateways, workload

NETWORKS = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + namespace("blue") + layer3("blue", "net", "10.128.0.0/16", 24)
)  # fmt: skip
PLACED = "".join(workload(name, f"w{number}", f"node{number}") for name in ("red", "blue") for number in (1, 2))
ARRIVED = "".join(workload(name, "w3", "node3") for name in ("red", "blue"))
TABLES = {
    "Logical_Router": "name", "Logical_Switch": "name", "Logical_Router_Port": "name", "Logical_Switch_Port": "name",
    "Logical_Router_Static_Route": "ip_prefix", "NAT": "logical_ip",
}  # fmt: skip


def snapshots():
    """Return the state before, with and after workloads on node3."""
    more = {"hosts": with_gateways("shared"), "settings": {"dynamic_networks_grace_period": 0}}
    before = stored(NETWORKS + PLACED, **more)
    during = stored(NETWORKS + PLACED + ARRIVED, before, **more)
    return before, during, stored(NETWORKS + PLACED, during, **more)


def content(zone) -> dict[str, list[str]]:
    return {table: sorted(row[column] for row in zone.northbound.rows(table, column))
            for table, column in TABLES.items()}  # fmt: skip


def names(zone) -> str:
    """Return the names of all datapaths and ports that northd made."""
    ports = [row["logical_port"] for row in zone.southbound.rows("Port_Binding", "logical_port")]
    datapaths = [str(row["external_ids"]) for row in zone.southbound.rows("Datapath_Binding", "external_ids")]
    return " ".join(ports + datapaths)


@pytest.mark.parametrize("node", ["node1", "node3"])
def test_networks_come_and_go_with_workloads_of_the_node(tools, northbound, southbound, northd, node):
    zone = Zone(tools, northbound, southbound)
    before, during, after = map(build_plan, snapshots())
    zone.bring(before, node)
    first, made = content(zone), names(zone)
    for name in ("red_net", "blue_net"):
        assert (name in made) is (node == "node1")
    # Rows of the networks name node2, which has them, and not node3.
    assert ("red_net_node2" in made, "blue_net_tstor-node2" in made) == (node == "node1",) * 2
    assert "red_net_node3" not in made and "blue_net_tstor-node3" not in made

    zone.bring(during, node)
    made = names(zone)
    others = {"node1", "node2", "node3"} - {node}
    assert all(f"trtor-GR_red_net_{other}" in made and f"blue_net_tstor-{other}" in made for other in others)
    assert not zone.bring(during, node).changed

    zone.bring(after, node)
    assert content(zone) == first
    assert not zone.bring(after, node).changed
    assert ("red_net" in names(zone)) is (node == "node1")


def test_packets_between_a_new_node_and_the_others(tools, northbound, southbound, northd):
    """The zone of the node that gets its first workload sends to the others, which it had no ports of before."""
    zone = Zone(tools, northbound, southbound)
    encap = {"type": "geneve", "ip": "198.18.1.13", "chassis_name": "chassis-of-node3"}
    southbound.transact(
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
        {"op": "insert", "table": "Chassis", "row": {"name": "chassis-of-node3", "encaps": ["named-uuid", "encap"]}},
    )
    before, during, _after = map(build_plan, snapshots())
    zone.bring(before, "node3")
    zone.bring(during, "node3")
    own, far = zone.interface("red/w3", "red_net"), zone.interface("red/w1", "red_net")
    for family in (0, 1):
        target = far["addresses"][family].partition("/")[0]
        seen = zone.trace(layer2_switch("red_net"), own["port"], own, target, far["mac"], 6 if family else 4)
        assert f'output("{far["port"]}")' in seen, seen
