# SPDX-License-Identifier: Apache-2.0
"""What the kinds of Coil v2 have in common: group and version, labels, annotations.

Coil v2, "Custom Resource Definitions" and "Choosing the pool".
"""

from __future__ import annotations

from ..names import is_dns_subdomain
from ..node import Node
from ..problem import show

COIL_VERSIONS = ("coil.cybozu.com/v2",)
# Annotation of a namespace: the pool that its workloads have their addresses from.
POOL_ANNOTATION = "coil.cybozu.com/pool"
DEFAULT_POOL = "default"
# Labels of an AddressBlock. A block with `reserved` set to "true" gives no addresses to workloads.
POOL_LABEL = "coil.cybozu.com/pool"
NODE_LABEL = "coil.cybozu.com/node"
RESERVED_LABEL = "coil.cybozu.com/reserved"


def read_pool(annotations: Node, spec: dict) -> dict:
    """Return a namespace's spec with `pool`, the pool that its annotation names; as it was without one."""
    if not isinstance(annotations.value, dict) or annotations.value.get(POOL_ANNOTATION) is None:
        return spec
    node = annotations.child(POOL_ANNOTATION)
    text = node.text()
    if text is None:
        return spec
    if not is_dns_subdomain(text):
        node.refuse(f"{show(text)} is not the name of an AddressPool", "name one, or remove the annotation")
        return spec
    return {**spec, "pool": text}
