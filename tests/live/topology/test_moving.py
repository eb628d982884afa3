# SPDX-License-Identifier: Apache-2.0
"""A virtual machine's port while it moves, in northd and ovn-trace of each of the three zones."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import layer2_switch
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.workload.move import begin_move, end_move
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.additional_chassis import reconcile_additional_chassis
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.qemu import render_additional_chassis
from tests.live.topology.zone import Zone
from tests.pipeline import layer2, namespace, stored, workload

PORT = "red.net_red_vm"
TEXT = (
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + workload("red", "vm", "node1, kind: vm")
    + "".join(workload("red", f"web{number}", f"node{number}") for number in (1, 2, 3))
)
BEFORE = stored(TEXT)
MOVING = begin_move(BEFORE, "red/vm", "node2")[0]
AFTER = end_move(MOVING, "red/vm", "node2")


@pytest.fixture
def zone_of(tools, northbound, southbound, northd):
    """The zone of a node, whose own chassis ovn-controller would have written."""

    def make(node):
        encap = {"type": "geneve", "ip": "198.18.1.99", "chassis_name": f"chassis-of-{node}"}
        southbound.transact(
            {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
            {
                "op": "insert",
                "table": "Chassis",
                "row": {"name": f"chassis-of-{node}", "encaps": ["named-uuid", "encap"]},
            },
        )
        zone = Zone(tools, northbound, southbound)
        zone.node = node
        return zone

    return make


def bring(zone, snapshot):
    """What `heddle.ovn.zone` does to the databases on the zone's host; returns the outcome."""
    plan = build_plan(snapshot)
    outcome = zone.bring(plan, zone.node)
    with zone.southbound.client() as client:
        return outcome + reconcile_additional_chassis(client, render_additional_chassis(plan, zone.node), write=True)


def binding(zone):
    """Chassis that the VM's port is bound to, asked for, and that get its packets as well; and its type."""
    columns = (
        "logical_port",
        "type",
        "chassis",
        "requested_chassis",
        "requested_additional_chassis",
        "additional_chassis",
    )
    (row,) = [row for row in zone.southbound.rows("Port_Binding", *columns) if row["logical_port"] == PORT]
    names = {row["_uuid"][1]: row["name"] for row in zone.southbound.rows("Chassis", "name")}

    def named(value):
        members = value[1] if value[0] == "set" else [value]
        return sorted(names[member[1]].removeprefix("chassis-of-") for member in members)

    return {name: named(row[name]) for name in columns[2:]} | {"type": row["type"]}


@pytest.mark.parametrize(
    ("node", "before", "during", "after"),
    [
        # The source's ovn-controller, which is not here, would bind it: no chassis of its own.
        ("node1", ([], [], ""), ([], ["node2"], ""), (["node2"], [], "remote")),
        # northd binds the port to the other zone's chassis even though it is a local port that waits.
        ("node2", (["node1"], [], "remote"), (["node1"], [], ""), ([], [], "")),
        ("node3", (["node1"], [], "remote"), (["node1"], ["node2"], "remote"), (["node2"], [], "remote")),
    ],
)
def test_destinations_of_packets_during_migration(zone_of, node, before, during, after):
    zone = zone_of(node)
    for snapshot, (chassis, extra, kind) in ((BEFORE, before), (MOVING, during), (AFTER, after)):
        assert bring(zone, snapshot).changed
        found = binding(zone)
        assert (found["chassis"], found["additional_chassis"], found["type"]) == (chassis, extra, kind)
        if node == "node2":
            assert found["requested_additional_chassis"] == (["node2"] if snapshot is MOVING else [])
        assert not bring(zone, snapshot).changed
    bring(zone, MOVING)
    bring(zone, BEFORE)
    found = binding(zone)
    assert (found["chassis"], found["additional_chassis"], found["type"]) == before


def test_dhcp_answers_only_virtual_machines(zone_of):
    zone = zone_of("node1")
    bring(zone, BEFORE)
    assert len(zone.northbound.rows("DHCP_Options", "cidr")) == 2
    switch = layer2_switch("red_net")
    for name, answered in (("red/vm", True), ("red/web1", False)):
        interface = zone.interface(name, "red_net")
        flow = (
            f'inport == "{interface["port"]}" && eth.src == {interface["mac"]} && eth.dst == ff:ff:ff:ff:ff:ff && '
            "ip4.src == 0.0.0.0 && ip4.dst == 255.255.255.255 && udp.src == 68 && udp.dst == 67"
        )
        traced = zone.tools.run("ovn-trace", f"--db={zone.southbound.remote}", switch, flow)
        assert ("put_dhcp_opts(offerip = 10.0.0.3" in traced) is answered
        for option in ("lease_time = 3500", "router = 10.0.0.1", "server_id = 169.254.1.1", 'hostname = "vm"'):
            assert (option in traced) is answered
    bring(zone, stored(namespace("red")))
    assert zone.northbound.rows("DHCP_Options", "cidr") == []
