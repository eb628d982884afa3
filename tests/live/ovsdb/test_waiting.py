# SPDX-License-Identifier: Apache-2.0
"""What is reported of ports that do not come up; a time-out of 0 looks once."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.ports import wait_for_flows, wait_for_ports
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import NorthdSilent, TimedOut, synchronise


def add_ports(southbound, chassis: dict[str, str], ports: dict[str, tuple[str | None, bool]]) -> None:
    """Add chassis with their `is-remote`, and ports: the chassis that each is bound to, and whether it is up."""
    operations = [{"op": "insert", "table": "Datapath_Binding", "uuid-name": "d", "row": {"tunnel_key": 1}}]
    for number, (name, remote) in enumerate(chassis.items(), 1):
        encap = {"type": "geneve", "ip": f"192.0.2.{number}", "chassis_name": name}
        other = ["map", [["is-remote", remote]] if remote else []]
        row = {"name": name, "encaps": ["named-uuid", f"e_{name}"], "other_config": other}
        operations += [
            {"op": "insert", "table": "Encap", "uuid-name": f"e_{name}", "row": encap},
            {"op": "insert", "table": "Chassis", "uuid-name": name, "row": row},
        ]
    for number, (name, (at, up)) in enumerate(ports.items(), 1):
        bound = {"chassis": ["named-uuid", at]} if at else {}
        row = {"logical_port": name, "datapath": ["named-uuid", "d"], "tunnel_key": number, "up": up, **bound}
        operations.append({"op": "insert", "table": "Port_Binding", "row": row})
    southbound.transact(*operations)


def add_interfaces(vswitch, *external_ids: dict[str, str]) -> None:
    """Add interfaces to a bridge."""
    names = [f"i{number}" for number in range(len(external_ids))]
    rows = [
        {"name": name, "external_ids": ["map", [*ids.items()]]} for name, ids in zip(names, external_ids, strict=True)
    ]
    members = ["set", [["named-uuid", name] for name in names]]
    vswitch.transact(
        *({"op": "insert", "table": "Interface", "uuid-name": row["name"], "row": row} for row in rows),
        {"op": "insert", "table": "Port", "uuid-name": "p", "row": {"name": "p", "interfaces": members}},
        {"op": "insert", "table": "Bridge", "uuid-name": "b", "row": {"name": "b", "ports": ["named-uuid", "p"]}},
        {"op": "insert", "table": "Open_vSwitch", "row": {"bridges": ["named-uuid", "b"]}},
    )


INSTALLED = {"ovn-installed": "true"}


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        ([], []),
        (["up"], []),
        (
            ["up", "down", "unbound", "elsewhere", "bare", "gone"],
            ["down", "unbound", "elsewhere", "bare", "gone"],
        ),
    ],
)
def test_ports_that_are_down_or_not_there_are_named(southbound, vswitch, asked, missing):
    ports = {
        "up": ("here", True), "down": ("here", False), "unbound": (None, False), "elsewhere": ("other", True),
        "bare": ("here", True),
    }  # fmt: skip
    add_ports(southbound, {"here": "", "other": "true"}, ports)
    marks = [{"iface-id": name, **({} if name == "bare" else INSTALLED)} for name in ports]
    add_interfaces(vswitch, *marks, INSTALLED)
    with vswitch.client() as switch, southbound.client() as client:
        assert wait_for_ports(switch, client, asked, 0) == missing


def test_a_port_without_flows_on_this_host_is_a_time_out(vswitch):
    add_interfaces(vswitch, {"iface-id": "here", **INSTALLED}, {"iface-id": "bare"})
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
