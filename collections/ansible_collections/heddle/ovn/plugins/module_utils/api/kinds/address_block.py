# SPDX-License-Identifier: Apache-2.0
"""AddressBlock (Coil v2): a block of a pool's addresses that is on one node.

Heddle makes them. A user writes only reserved ones: ranges that something else uses, as after a migration from Coil v1.
"""

from __future__ import annotations

from ..coil.coil import COIL_VERSIONS, NODE_LABEL, POOL_LABEL, RESERVED_LABEL
from ..kind import Kind
from ..node import Fields, Node

_FIELDS = ("index", "ipv4", "ipv6")
_MOST_INDEX = 2**31 - 1


def _read(fields: Fields) -> dict | None:
    index = fields.require("index", "the place of the block in the pool's subnets, from 0")
    texts = {name: field.text() for name in _FIELDS[1:] if (field := fields.get(name))}
    labels = _labels(fields)
    if labels.get(RESERVED_LABEL) != "true":
        fields.node.refuse(
            "Heddle makes the blocks of a pool; a manifest can only reserve one",
            f'leave it out, or add the label {RESERVED_LABEL}: "true"',
        )
        return None
    for label, what in ((POOL_LABEL, "pool"), (NODE_LABEL, "node")):
        if not isinstance(labels.get(label), str):
            fields.place("metadata").child("labels").refuse(
                f"Required value: label {label}", f"name the {what} of the block"
            )
    number = index.integer(0, _MOST_INDEX) if index else None
    return {"index": number, "pool": labels.get(POOL_LABEL), "node": labels.get(NODE_LABEL), **texts}


def _labels(fields: Fields) -> dict:
    metadata: Node | None = fields.get("metadata")
    labels = metadata.value.get("labels") if metadata and isinstance(metadata.value, dict) else None
    return labels if isinstance(labels, dict) else {}


KIND = Kind(name="AddressBlock", api_versions=COIL_VERSIONS, namespaced=False, read_spec=_read, root_fields=_FIELDS)
