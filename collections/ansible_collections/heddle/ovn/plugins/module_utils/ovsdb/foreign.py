# SPDX-License-Identifier: Apache-2.0
"""Lists unmarked rows for the audit; they are never changed."""

from __future__ import annotations

from ..common.change import Foreign
from .identity import OWNER
from .protocol.schema import MARKS
from .values import map_pairs


def foreign_rows(client, schema, desired, current):
    """Rows in the tables of the scope without any owner's mark that no desired row was matched with, as `Foreign`."""
    known = {wanted.uuid for wanted in desired.rows.values()}
    names = sorted(current.purged)
    operations = []
    for name in names:
        table = schema.tables[name]
        columns = ["_uuid", *({table.title} - {None}), *([MARKS] if table.marked else [])]
        operations.append({"op": "select", "table": name, "where": [], "columns": columns})
    found = []
    for name, answer in zip(names, client.transact(schema.name, operations), strict=True):
        table = schema.tables[name]
        for row in answer["rows"]:
            uuid = row["_uuid"][1]
            if uuid in known or current.owns(name, uuid) or (table.marked and OWNER in map_pairs(row[MARKS])):
                continue
            title = row.get(table.title)
            found.append(Foreign(schema.name, name, title if isinstance(title, str) and title else uuid, uuid))
    return sorted(found, key=lambda item: (item.kind, item.name, item.identity))
