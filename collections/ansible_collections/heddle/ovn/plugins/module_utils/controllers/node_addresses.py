# SPDX-License-Identifier: Apache-2.0
"""The addresses of the nodes that the selectors of policies and firewalls select."""

from __future__ import annotations

from ..api import LabelledNames, selector_text
from ..common.addressing import family
from ..store.snapshot import Snapshot
from .admission.host_addresses import addresses_of_hosts
from .node_labels import labels_of_nodes


class NodeAddresses:
    """Finds them in a snapshot; equal selectors are evaluated once, whatever rules of whatever networks have them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = LabelledNames(labels_of_nodes(snapshot))
        self._addresses: dict[str, list[str]] = {}
        for address, node in addresses_of_hosts(snapshot):
            self._addresses.setdefault(node, []).append(address)
        self._found: dict[str, list[str]] = {}

    def of(self, selector: dict) -> list[str]:
        """Return all addresses of the nodes that a selector selects, each once, IPv4 first."""
        name = selector_text(selector)
        if name not in self._found:
            found = {one for node in self._nodes.selected(selector) for one in self._addresses.get(node, ())}
            self._found[name] = sorted(found, key=lambda address: (family(address), address))
        return self._found[name]
