# SPDX-License-Identifier: Apache-2.0
"""Which objects, of those that nodes report of, have another effect by another plan.

A label of a namespace or workload changes whom a policy selects, so its rows differ although its manifest does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..controllers.kind_names import ADMIN_KINDS
from ..render.common.changed_networks import differing_names
from ..store.snapshot import StoredObject


class ChangedObjects:
    """The objects that differ between two plans."""

    def __init__(self, old: dict, new: dict) -> None:
        self._policies = self._differing_policies(old, new)
        firewalls = [dict(_by_namespace(_firewalls(plan))) for plan in (old, new)]
        qos = [dict(_by_namespace(plan.get("egress_qos", ()))) for plan in (old, new)]
        self._namespaces = {"EgressFirewall": differing_names(*firewalls), "EgressQoS": differing_names(*qos)}

    def __contains__(self, entry: StoredObject) -> bool:
        if entry.kind in ADMIN_KINDS:
            return (entry.kind, entry.name) in self._policies
        return entry.namespace in self._namespaces.get(entry.kind, ())

    @staticmethod
    def _differing_policies(old: dict, new: dict) -> set[tuple[str, str]]:
        """Return kinds and names of the policies of the cluster that differ in a network."""
        found: set[tuple[str, str]] = set()
        parts = [plan.get("policies", {}) for plan in (old, new)]
        for network in differing_names(*parts):
            before, after = (_effects(part.get(network, {})) for part in parts)
            found |= differing_names(before, after)
        return found


def _effects(policies: dict) -> dict[tuple[str, str], tuple]:
    """Return what each policy of the cluster is in a network, with whom it selects there."""
    known = {**policies.get("selections", {}), **policies.get("ports", {})}
    return {
        (entry["kind"], entry["name"]): (entry, {text: known[text] for text in _texts(entry) if text in known})
        for entry in policies.get("admin", ())
    }


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _firewalls(plan: dict) -> Iterator[dict]:
    for network, entries in plan.get("egress_firewalls", {}).items():
        for entry in entries:
            yield {**entry, "network": network}


def _by_namespace(entries) -> Iterator[tuple[str, dict]]:
    for entry in entries:
        yield entry["namespace"], entry
