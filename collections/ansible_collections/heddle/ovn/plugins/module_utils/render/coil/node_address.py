# SPDX-License-Identifier: Apache-2.0
"""The address by which a node is known to its neighbours. Pure."""

from __future__ import annotations

from ...common.addressing import family, plain


def node_address(node: dict, version: int) -> str | None:
    """Return a node's address on the provider network, else where its tunnels end; None without one of the family."""
    found = [plain(text) for text in [*node["addresses"], *node["encap_ips"]]]
    return next((text for text in found if family(text) == version), None)
