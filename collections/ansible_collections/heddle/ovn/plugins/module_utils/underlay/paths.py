# SPDX-License-Identifier: Apache-2.0
"""What hosts found about the paths between them."""

from __future__ import annotations

from collections.abc import Mapping

from ..types.encapsulation import OVERLAYS


def paths_from(node: str, sent: Mapping[str, dict], received: Mapping[str, dict]) -> dict[str, dict[str, int]]:
    """Return what gets through from a node: by other node and encapsulation, the largest IP packet in bytes, or 0.

    `sent` is what the node had acknowledged, `received` by node what that one has received from others. What arrived
    without its acknowledgement coming back counts: that is the other direction's. Nodes without a record are left out.
    """
    return {
        other: {kind: max(found.get(kind) or 0, received[other].get(node, {}).get(kind) or 0) for kind in OVERLAYS}
        for other, found in sent.items()
        if other in received
    }
