# SPDX-License-Identifier: Apache-2.0
"""Who a row belongs to: uuids that are known before the row exists, and the marks that rows carry.

A row's uuid is uuid5 of owner, table and key. So two runs that create the same row collide on its uuid instead of
making two rows, and a reference needs no lookup. Marks are three keys in `external_ids`. Rows of root tables without
`external_ids` (Static_MAC_Binding, Load_Balancer_Group, ...) carry the mark in the uuid itself: a uuid of version 8
(RFC 9562 section 5.8, ours to lay out) of 40 bits of owner and table, 32 of the network, the rest of the key.
"""

from __future__ import annotations

import hashlib
import uuid

OWNER, KEY, NETWORK = "heddle/owner", "heddle/key", "heddle/network"
MARK_KEYS = frozenset((OWNER, KEY, NETWORK))
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://heddle.example/owner")


class Identity:
    """The uuids and marks of one owner."""

    def __init__(self, owner):
        self.owner = owner
        self._space = uuid.uuid5(_SPACE, owner).bytes
        self.condition = ["external_ids", "includes", ["map", [[OWNER, owner]]]]

    def uuid_of(self, table, row):
        """The uuid that a row gets when this owner creates it; `table` is its `ovsdb_schema.Table`."""
        name = f"{row.table}/{row.key}".encode()
        if not table.marked and table.root:
            return self._marked_uuid(row)
        return _layout(hashlib.sha1(self._space + name, usedforsecurity=False).hexdigest(), "5")

    def marks(self, row):
        """What `external_ids` of an owned row says."""
        return {OWNER: self.owner, KEY: row.key, NETWORK: row.network}

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
        return f"{owner}{network[:2]}-8{network[2:5]}-{_variant(key)}{network[5:8]}-{key[1:13]}"

    def _owner_part(self, table):
        digest = self._digest("table", table)
        return f"{digest[:8]}-{digest[8:10]}"

    def _digest(self, *parts):
        return hashlib.sha1(self._space + "/".join(parts).encode(), usedforsecurity=False).hexdigest()


def _variant(digest):
    return "89ab"[int(digest[0], 16) & 3]


def _layout(digest, version):
    """Text of the uuid that a SHA-1 digest gives (RFC 9562 section 5.5)."""
    return f"{digest[:8]}-{digest[8:12]}-{version}{digest[13:16]}-{_variant(digest[16])}{digest[17:20]}-{digest[20:32]}"
