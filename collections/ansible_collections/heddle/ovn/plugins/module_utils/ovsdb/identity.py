# SPDX-License-Identifier: Apache-2.0
"""Ownership of rows: uuids that are known before the row exists, and the marks that rows carry.

A row's uuid is uuid5 of owner, table and key. So two runs that create the same row collide on its uuid instead of
making two rows, and a reference needs no lookup. Marks are three keys in `external_ids`. Rows of root tables without
`external_ids` (Static_MAC_Binding, Load_Balancer_Group, ...) carry the mark in the uuid itself: a uuid of version 8
(RFC 9562 section 5.8, custom layout) of 40 bits of owner and table, 32 of the network, the rest of the key.
"""

from __future__ import annotations

import hashlib
import uuid

OWNER, KEY, NETWORK = "heddle/owner", "heddle/key", "heddle/network"
MARK_KEYS = frozenset((OWNER, KEY, NETWORK))
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://heddle.example/owner")
_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


class Identity:
    """The uuids and marks of one owner."""

    def __init__(self, owner):
        self.owner = owner
        self._space = hashlib.sha1(uuid.uuid5(_SPACE, owner).bytes, usedforsecurity=False)
        self.condition = ["external_ids", "includes", ["map", [[OWNER, owner]]]]

    def uuid_of(self, table, row):
        """The uuid that a row gets when this owner creates it; `table` is its `ovsdb_schema.Table`."""
        if not table.marked and table.root:
            return self._marked_uuid(row)
        digest = self._digest(row.table, row.key)
        # RFC 9562 section 5.5: version 5 and the variant over a SHA-1 digest.
        variant = _VARIANTS[digest[16]]
        return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"

    def marks(self, row):
        """The minimum content of `external_ids` of an owned row."""
        return self.marked({}, row)

    def marked(self, external_ids, row):
        """Those `external_ids` with the marks."""
        return {**external_ids, OWNER: self.owner, KEY: row.key, NETWORK: row.network}

    def network_condition(self, network):
        """Selects the owner's rows of one network."""
        return ["external_ids", "includes", ["map", [[OWNER, self.owner], [NETWORK, network]]]]

    def made(self, table, text):
        """Whether this owner chose that uuid for a row of a root table without `external_ids`."""
        return text[14] == "8" and text[:11] == self._owner_part(table)

    def made_for(self, text, network):
        """Whether such a uuid was chosen for that network."""
        return text[11:13] + text[15:18] + text[20:23] == self._digest("network", network)[:8]

    def _marked_uuid(self, row):
        owner = self._owner_part(row.table)
        network, key = self._digest("network", row.network), self._digest("key", row.table, row.key)
        return f"{owner}{network[:2]}-8{network[2:5]}-{_VARIANTS[key[0]]}{network[5:8]}-{key[1:13]}"

    def _owner_part(self, table):
        digest = self._digest("table", table)
        return f"{digest[:8]}-{digest[8:10]}"

    def _digest(self, *parts):
        digest = self._space.copy()
        digest.update("/".join(parts).encode())
        return digest.hexdigest()
