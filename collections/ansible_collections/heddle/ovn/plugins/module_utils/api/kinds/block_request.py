# SPDX-License-Identifier: Apache-2.0
"""BlockRequest (Coil v2): how a node asks for a further block of a pool. Heddle makes them; a manifest is refused."""

from __future__ import annotations

from ..coil.coil import COIL_VERSIONS
from ..kind import Kind
from ..names import read_dns_subdomain
from ..node import Node


def _read_spec(node: Node) -> dict | None:
    fields = node.mapping(("nodeName", "poolName"))
    for name in ("nodeName", "poolName"):
        field = fields.require(name)
        if field:
            read_dns_subdomain(field)
    node.refuse(
        "Heddle requests blocks itself, when a workload needs one", "leave it out; heddle.ovn.status shows them"
    )
    return None


KIND = Kind(name="BlockRequest", api_versions=COIL_VERSIONS, namespaced=False, read_spec=_read_spec)
