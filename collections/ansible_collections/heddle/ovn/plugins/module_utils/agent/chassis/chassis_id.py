# SPDX-License-Identifier: Apache-2.0
"""Keeps a host the chassis that the plan has: the system-id of Open vSwitch, and ovn-controller's registration by it.

ovs-ctl(8) makes a random system-id when /etc/openvswitch/system-id.conf is missing at a start. ovn-controller then
cannot register: the database allows an address in one Encap only (ovn-sb(5), Encap), and that of the former id has it.
So `hv_cfg` is never reached. The id of the plan is restored, because all other hosts and the tunnel keys refer to it.
"""

from __future__ import annotations

import contextlib

from ...common.change import Change, Outcome
from ...common.databases import OPEN_VSWITCH, OVN_SOUTHBOUND
from ...ovsdb.values import map_pairs, uuids
from ..module_runner import PLAN_FILE, UserError, read_plan_file
from ..plan_file import write_file

SYSTEM_ID_FILE = "/etc/openvswitch/system-id.conf"


def identifiers(client) -> dict[str, str]:
    """Return `external_ids` of Open vSwitch; nothing where it was never started. Raises OvsdbError."""
    return _read(client) or {}


def _read(client) -> dict[str, str] | None:
    select = {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["external_ids"]}
    rows = client.transact(OPEN_VSWITCH, [select])[0]["rows"]
    return map_pairs(rows[0]["external_ids"]) if rows else None


def planned_chassis(node: str, path: str = PLAN_FILE) -> str:
    """Return the chassis of a node in the plan that this host keeps; "" when it has none or the plan is damaged."""
    with contextlib.suppress(UserError):
        return read_plan_file(path)["nodes"].get(node, {}).get("chassis") or ""
    return ""


def restore_chassis_id(client, chassis: str, path: str, *, write: bool) -> Outcome:
    """Bring the system-id of Open vSwitch, and the file (`path`) that it is read from at a start, to the planned id.

    `client` is connected to Open vSwitch's database. Raises OvsdbError; UserError when the file cannot be written.
    """
    return _restore_file(chassis, path, write=write) + _restore_database(client, chassis, write=write)


def _restore_file(chassis: str, path: str, *, write: bool) -> Outcome:
    try:
        with open(path, encoding="utf-8") as text:
            found = text.read().strip()
    except (OSError, UnicodeDecodeError):
        found = ""
    if found == chassis:
        return Outcome()
    if write:
        write_file(path, f"{chassis}\n")
    action, before = ("update", {"system-id": found}) if found else ("create", {})
    return Outcome((Change("file", action, "system-id", path, "", before, {"system-id": chassis}),))


def _restore_database(client, chassis: str, *, write: bool) -> Outcome:
    # Without the row Open vSwitch was never started. Its first start makes the row, from the file.
    external_ids = _read(client)
    if external_ids is None or (found := external_ids.get("system-id", "")) == chassis:
        return Outcome()
    if write:
        mutations = [
            ["external_ids", "delete", ["set", ["system-id"]]],
            ["external_ids", "insert", ["map", [["system-id", chassis]]]],
        ]
        operation = {"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": mutations}
        client.transact(OPEN_VSWITCH, [operation])
    before, after = {"system-id": found}, {"system-id": chassis}
    return Outcome((Change(OPEN_VSWITCH, "update", "Open_vSwitch", "system-id", "", before, after),))


def remove_former_chassis(client, chassis: str, addresses: list[str], *, write: bool) -> Outcome:
    """Remove what ovn-controller registered under other ids: chassis that have a tunnel address of this host.

    `client` is connected to the zone's Southbound database. As long as they are there, ovn-controller cannot register
    under the planned id, and their `nb_cfg` holds `hv_cfg` back. Raises OvsdbError.
    """
    tables = {"Chassis": ["name", "encaps"], "Encap": ["ip"], "Chassis_Private": ["name", "chassis"]}
    selects = [
        {"op": "select", "table": table, "where": [], "columns": ["_uuid", *columns]}
        for table, columns in tables.items()
    ]
    rows, encaps, private = (answer["rows"] for answer in client.transact(OVN_SOUTHBOUND, selects))
    own = {row["_uuid"][1] for row in encaps if row["ip"] in addresses}
    former = {row["name"] for row in rows if row["name"] != chassis and own & uuids(row["encaps"])}
    orphans = {row["name"] for row in private if row["name"] != chassis and not uuids(row["chassis"])}
    if write and former | orphans:
        deletions = [("Chassis_Private", name) for name in sorted(former | orphans)]
        deletions += [("Chassis", name) for name in sorted(former)]
        operations = [{"op": "delete", "table": table, "where": [["name", "==", name]]} for table, name in deletions]
        client.transact(OVN_SOUTHBOUND, operations)
    return Outcome(
        tuple(
            Change(OVN_SOUTHBOUND, "delete", "Chassis", name, "", {"name": name}, {})
            for name in sorted(former | orphans)
        )
    )
