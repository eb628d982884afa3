# SPDX-License-Identifier: Apache-2.0
"""What is reported of ports that do not come up; a time-out of 0 looks once."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.ports import wait_for_flows, wait_for_ports
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import NorthdSilent, TimedOut, synchronise


def add_ports(northbound, **up: bool | None) -> None:
    """Add ports to a switch; `None` stands for one of which OVN has said nothing yet."""
    rows = {name: {"name": name, **({} if value is None else {"up": value})} for name, value in up.items()}
    inserts = [
        {"op": "insert", "table": "Logical_Switch_Port", "uuid-name": name, "row": row} for name, row in rows.items()
    ]
    ports = ["set", [["named-uuid", name] for name in rows]]
    northbound.transact(*inserts, {"op": "insert", "table": "Logical_Switch", "row": {"name": "s", "ports": ports}})


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        ([], []),
        (["up"], []),
        (["up", "down", "new", "gone"], ["down", "new", "gone"]),
    ],
)
def test_ports_that_are_down_or_not_there_are_named(northbound, asked, missing):
    add_ports(northbound, up=True, down=False, new=None)
    with northbound.client() as client:
        assert wait_for_ports(client, asked, 0) == missing


def test_a_port_without_flows_on_this_host_is_a_time_out(vswitch):
    ids = ["map", [["iface-id", "here"], ["ovn-installed", "true"]]]
    bare = ["map", [["iface-id", "bare"]]]
    interfaces = [
        {
            "op": "insert",
            "table": "Interface",
            "uuid-name": f"i{number}",
            "row": {"name": f"i{number}", "external_ids": one},
        }
        for number, one in enumerate((ids, bare))
    ]
    members = ["set", [["named-uuid", "i0"], ["named-uuid", "i1"]]]
    vswitch.transact(
        *interfaces,
        {"op": "insert", "table": "Port", "uuid-name": "p", "row": {"name": "p", "interfaces": members}},
        {"op": "insert", "table": "Bridge", "uuid-name": "b", "row": {"name": "b", "ports": ["named-uuid", "p"]}},
        {"op": "insert", "table": "Open_vSwitch", "row": {"bridges": ["named-uuid", "b"]}},
    )
    with vswitch.client() as client:
        wait_for_flows(client, ["here"], 0)
        for port in ("bare", "gone"):
            with pytest.raises(TimedOut, match="Open_vSwitch Interface did not become as expected within 0 s"):
                wait_for_flows(client, ["here", port], 0)


def test_a_northd_that_is_not_there_is_named(northbound, southbound):
    northbound.transact({"op": "insert", "table": "NB_Global", "row": {}})
    refused = pytest.raises(NorthdSilent, match="ovn-northd has not processed the change")
    with northbound.client() as client, southbound.client() as reader, refused:
        synchronise(client, reader, 0)
