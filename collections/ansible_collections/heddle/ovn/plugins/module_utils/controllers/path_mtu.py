# SPDX-License-Identifier: Apache-2.0
"""Which networks are too large for the tunnels over the hosts' underlay."""

from __future__ import annotations

from collections.abc import Iterator

from ..common.addressing import family
from ..store.snapshot import Snapshot, StoredObject
from ..types.encapsulation import OVERLAY
from .networks import NETWORK_KINDS


def largest(node: StoredObject) -> int | None:
    """Return the largest network MTU that a host's underlay permits; None while the underlay MTU is unknown."""
    mtu, addresses = node.spec.get("underlay_mtu"), node.spec.get("encap_ips") or []
    if not mtu or not addresses:
        return None
    return mtu - max(OVERLAY.overhead[family(address)] for address in addresses)


def check_path_mtu(snapshot: Snapshot) -> Iterator[tuple[str, str, str, str]]:
    """Reject networks whose packets would not fit into a tunnel between two hosts."""
    limits = {node.name: limit for node in snapshot.of_kind("Node") if (limit := largest(node)) is not None}
    if not limits:
        return
    narrowest = min(limits, key=lambda name: (limits[name], name))
    wanted = [("Settings", "mtu", snapshot.settings["mtu"])] + [
        (entry.key, "spec.mtu", entry.spec["mtu"] or 0)
        for entry in snapshot.of_kind(*NETWORK_KINDS)
        if entry.spec["topology"] != "Localnet"
    ]
    for key, path, mtu in wanted:
        if mtu > limits[narrowest]:
            yield (
                key, path,
                f"{mtu} does not fit into the tunnels of {narrowest}, whose underlay has room for {limits[narrowest]}",
                f"use {limits[narrowest]} or less, or raise the underlay's MTU on all hosts",
            )  # fmt: skip
