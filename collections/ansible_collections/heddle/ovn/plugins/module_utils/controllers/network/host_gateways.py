# SPDX-License-Identifier: Apache-2.0
"""Hosts as routers of primary networks of the mesh: which hosts can be one, and the condition about those that cannot.

The host's interface in such a network is in a VRF, as with local gateway mode. A host whose kernel has no VRFs is no
router: its workloads reach each other and those of other hosts, and have no default route.
"""

from __future__ import annotations

from ...store.snapshot import Snapshot, StoredObject
from ..conditions import PARTIAL_FAILURE, TRUE, described


def has_gateway(node: StoredObject) -> bool:
    """Return whether a node is a router: it has an uplink to the provider network, and its kernel has VRFs."""
    gateway = node.spec.get("gateway")
    return bool(gateway) and gateway.get("vrf", True)


def without_gateway(snapshot: Snapshot) -> dict | None:
    """Return the condition of a network whose gateway is missing on hosts with an uplink; None where none lacks it."""
    lacking = [node.name for node in snapshot.of_kind("Node") if node.spec.get("gateway") and not has_gateway(node)]
    if not lacking:
        return None
    message = (
        f"no gateway on {', '.join(lacking)}: the kernel has no VRFs, which the gateway of a MeshNetwork needs "
        "(CONFIG_NET_VRF), so workloads there reach only their network; install a kernel with the vrf module"
    )
    return described(PARTIAL_FAILURE, TRUE, "VRFsNotSupported", message)
