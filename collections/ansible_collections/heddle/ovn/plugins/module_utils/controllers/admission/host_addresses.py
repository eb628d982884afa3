# SPDX-License-Identifier: Apache-2.0
"""The addresses that hosts have themselves: nothing else may have one of them."""

from __future__ import annotations

from collections.abc import Iterator

from ...common.addressing import plain
from ...store.snapshot import Snapshot


def addresses_of_hosts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield each address of a host with the host's name."""
    for node in snapshot.of_kind("Node"):
        gateway = node.spec.get("gateway") or {}
        for address in (
            *gateway.get("addresses", ()),
            *node.spec.get("addresses", ()),
            *node.spec.get("encap_ips", ()),
            *(one for addresses in (node.spec.get("other_addresses") or {}).values() for one in addresses),
        ):
            yield plain(address), node.name


def next_hops_of_hosts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield each default gateway of a host on the provider network with the host's name."""
    for node in snapshot.of_kind("Node"):
        for address in (node.spec.get("gateway") or {}).get("next_hops", ()):
            yield address, node.name
