# SPDX-License-Identifier: Apache-2.0
"""Sets the additional chassis of ports in zones without either end of a live migration.

Within one zone ovn-controller of the second chassis sets it (ovn-nb(5), `requested-chassis` with several). In a
zone that has neither chassis no daemon does, so this writes the Southbound column
`additional_chassis` there, which ovn-controller uses and ovn-northd does not change.
"""

from __future__ import annotations

from ..common.change import Change, Outcome
from ..common.databases import OVN_SOUTHBOUND
from .values import uuid_list


def reconcile_additional_chassis(client, ports: dict[str, str | None], *, write: bool) -> Outcome:
    """Set the additional chassis of the ports to `ports` (port -> chassis name or None).

    A port or a chassis that the Southbound database does not have yet is left for the next run.
    """
    if client is None or not ports:
        return Outcome()
    columns = ["_uuid", "logical_port", "additional_chassis"]
    bindings, chassis = client.transact(
        OVN_SOUTHBOUND,
        [
            {"op": "select", "table": "Port_Binding", "where": [], "columns": columns},
            {"op": "select", "table": "Chassis", "where": [], "columns": ["_uuid", "name"]},
        ],
    )
    uuids = {row["name"]: row["_uuid"][1] for row in chassis["rows"]}
    names = {uuid: name for name, uuid in uuids.items()}
    changes, operations = [], []
    for row in sorted(bindings["rows"], key=lambda row: row["logical_port"]):
        port = row["logical_port"]
        wanted = ports.get(port)
        if port not in ports or (wanted is not None and wanted not in uuids):
            continue
        before = [names.get(uuid, uuid) for uuid in uuid_list(row["additional_chassis"])]
        after = [wanted] if wanted else []
        if before != after:
            changes.append(_change(port, before, after))
            value = ["set", [["uuid", uuids[name]] for name in after]]
            operations.append(
                {
                    "op": "update", "table": "Port_Binding", "where": [["_uuid", "==", row["_uuid"]]],
                    "row": {"additional_chassis": value},
                }
            )  # fmt: skip
    if write and operations:
        client.transact(OVN_SOUTHBOUND, operations)
    return Outcome(tuple(changes))


def _change(port: str, before: list[str], after: list[str]) -> Change:
    return Change(
        OVN_SOUTHBOUND,
        "update",
        "Port_Binding",
        port,
        "",
        {"additional_chassis": before},
        {"additional_chassis": after},
    )
