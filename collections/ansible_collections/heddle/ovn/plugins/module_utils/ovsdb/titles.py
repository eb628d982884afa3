# SPDX-License-Identifier: Apache-2.0
"""Names of rows and differences of values, as changes report them."""

from __future__ import annotations


class Names:
    """Looks up labels of rows by uuid without making all of them."""

    def __init__(self, by_uuid):
        self._by_uuid = by_uuid

    def get(self, uuid, default):
        """Return the label, the default for a row that is not known."""
        wanted = self._by_uuid.get(uuid)
        return default if wanted is None else wanted.label


def title_of(row):
    """The name of a desired row, its key where it has none."""
    name = row.columns.get("name") or (row.match or {}).get("name")
    return name if isinstance(name, str) else row.key


def differing(before, after):
    """Only the keys that two maps disagree on."""
    keys = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return {key: before[key] for key in before if key in keys}, {key: after[key] for key in after if key in keys}
