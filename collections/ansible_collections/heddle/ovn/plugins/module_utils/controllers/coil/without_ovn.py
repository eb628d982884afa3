# SPDX-License-Identifier: Apache-2.0
"""What is refused in a fleet whose hosts have no OVN (the setting `ovn`): all that OVN would do."""

from __future__ import annotations

from collections.abc import Iterator

from ...common.naming import PRIMARY_NETWORK_LABEL
from ...store.settings import OVN
from ...store.snapshot import Snapshot
from .membership import BLOCK, POOL, REQUEST

# Object key, field, rule, remedy.
Refusal = tuple[str, str, str, str]
# What the kernel and BIRD do alone.
_KINDS = ("Namespace", "Node", "Workload", "Egress", POOL, BLOCK, REQUEST)
_REASON = "needs OVN, and hosts have none (heddle_settings: ovn: false)"
_REMEDY = "remove it, or set ovn: true and run heddle.ovn.site"


def check_without_ovn(before: Snapshot, after: Snapshot) -> Iterator[Refusal]:
    """Return every object that needs OVN where hosts have none, and the setting where they have it already."""
    if after.settings.get(OVN, True):
        return
    if before.of_kind("Node") and before.settings.get(OVN, True):
        remedy = "put true back, or run heddle.ovn.uninstall first and install hosts anew"
        yield "Settings", OVN, "cannot be changed to false: hosts have OVN already", remedy
    for key in sorted(after.objects):
        entry = after.objects[key]
        if entry.kind not in _KINDS:
            yield key, "kind", f"{entry.kind} {_REASON}", _REMEDY
        elif entry.kind == "Namespace" and PRIMARY_NETWORK_LABEL in entry.labels:
            yield key, "metadata.labels", f"{PRIMARY_NETWORK_LABEL} {_REASON}", "remove the label, or set ovn: true"
        elif entry.kind == "Workload" and entry.spec["kind"] != "netns":
            yield key, "spec.kind", f"{entry.spec['kind']} {_REASON}", "use netns, or set ovn: true"
