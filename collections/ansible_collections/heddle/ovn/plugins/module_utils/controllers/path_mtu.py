# SPDX-License-Identifier: Apache-2.0
"""Which networks are too large for the tunnels over the hosts' underlay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..api.kinds.mesh_network import ESP
from ..common.addressing import family
from ..store.snapshot import Snapshot, StoredObject
from ..types.encapsulation import ENCRYPTED_MESH, OVERLAY
from .networks import MESH_KIND, NETWORK_KINDS


def largest(node: StoredObject, overhead: Mapping[int, int] = OVERLAY.overhead) -> int | None:
    """Return the largest network MTU that a host's underlay permits; None while the underlay MTU is unknown.

    `overhead` has by IP version how many bytes a tunnel adds.
    """
    mtu, addresses = node.spec.get("underlay_mtu"), node.spec.get("encap_ips") or []
    if not mtu or not addresses:
        return None
    return mtu - max(overhead[family(address)] for address in addresses)


def check_path_mtu(snapshot: Snapshot) -> Iterator[tuple[str, str, str, str]]:
    """Reject networks whose packets would not fit into a tunnel between two hosts."""
    limits = {node.name: limit for node in snapshot.of_kind("Node") if (limit := largest(node)) is not None}
    if not limits:
        return
    # All networks of the mesh share its tunnels, which are encrypted when one of them is.
    encrypted = {}
    if any(entry.spec.get("encryption") == ESP for entry in snapshot.of_kind(MESH_KIND)):
        nodes = [node for node in snapshot.of_kind("Node") if node.name in limits]
        encrypted = {node.name: largest(node, ENCRYPTED_MESH) for node in nodes}
    mesh_default = snapshot.settings["mtu"] if encrypted else 0
    wanted = [("Settings", "mtu", snapshot.settings["mtu"])] + [
        (entry.key, "spec.mtu", entry.spec["mtu"] or (mesh_default if entry.kind == MESH_KIND else 0))
        for entry in snapshot.of_kind(*NETWORK_KINDS)
        if entry.spec["topology"] != "Localnet"
    ]
    for key, path, mtu in wanted:
        rooms, which = (encrypted, "encrypted ") if encrypted and key.startswith(f"{MESH_KIND}/") else (limits, "")
        narrowest = min(rooms, key=lambda name: (rooms[name], name))
        if mtu > rooms[narrowest]:
            yield (
                key, path,
                f"{mtu} does not fit into the {which}tunnels of {narrowest}, "
                f"whose underlay has room for {rooms[narrowest]}",
                f"use {rooms[narrowest]} or less, or raise the underlay's MTU on all hosts",
            )  # fmt: skip
