# SPDX-License-Identifier: Apache-2.0
"""Networks with VXLAN, in ovn-northd: keys of 12 bits, and neighbours that a transit router cannot resolve there."""

from __future__ import annotations

import pytest

from tests.live.topology.zone import Zone
from tests.pipeline import EVERYWHERE, THREE_NODES, layer2, namespace, workload

TEXT = namespace("red") + layer2("red", "net", "10.50.0.0/16", "fd50::/64") + workload("red", "a", "node1")


@pytest.fixture
def own_chassis(southbound):
    encap = {"type": "vxlan", "ip": "198.18.1.11", "chassis_name": "chassis-of-node1"}
    southbound.transact(
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
        {"op": "insert", "table": "Chassis", "row": {"name": "chassis-of-node1", "encaps": ["named-uuid", "encap"]}},
    )


def test_northd_takes_the_keys_of_the_plan(tools, northbound, southbound, northd, own_chassis, folder):
    zone = Zone(tools, northbound, southbound, TEXT, THREE_NODES, {"encapsulation_type": "vxlan"})
    keys = {row["tunnel_key"] for row in southbound.rows("Datapath_Binding", "tunnel_key")}
    planned = {key for network in zone.plan["networks"].values() for key in network["tunnel_keys"]}
    assert planned == {1024, 1025, 2560} <= keys
    # Those of this host alone are below the ones that all hosts have.
    assert max(keys - planned) < 1024
    ports = [row["tunnel_key"] for row in southbound.rows("Port_Binding", "tunnel_key")]
    assert max(ports) < 2048
    assert "incompatible with VXLAN" not in (folder / "northd.log").read_text()
    assert {row["type"] for row in southbound.rows("Encap", "type")} == {"vxlan"}
    assert not zone.apply(TEXT).changed


@pytest.mark.parametrize(("kind", "count"), [("vxlan", 4), ("geneve", 0)])
def test_gateway_routers_of_other_nodes_are_static_neighbours(
    tools, northbound, southbound, northd, own_chassis, kind, count
):
    Zone(tools, northbound, southbound, TEXT, THREE_NODES, {**EVERYWHERE, "encapsulation_type": kind})
    rows = northbound.rows("Static_MAC_Binding", "logical_port", "ip", "mac")
    found = {(row["logical_port"], row["ip"]): row["mac"] for row in rows if row["logical_port"].startswith("trtor-")}
    assert len(found) == count
    if not count:
        return
    routes = northbound.rows("Logical_Router_Static_Route", "nexthop")
    # Each is the next hop to a node's join address.
    assert {ip for _port, ip in found} <= {row["nexthop"] for row in routes}
    known = southbound.rows("Static_MAC_Binding", "logical_port", "ip", "mac", "override_dynamic_mac")
    assert {(row["logical_port"], row["ip"]): row["mac"] for row in known if row["override_dynamic_mac"]}.items() >= (
        found.items()
    )
