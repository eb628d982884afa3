# SPDX-License-Identifier: Apache-2.0
"""Whether a workload with a readiness probe is an endpoint: its condition Serving, by what its host reported."""

from __future__ import annotations

from collections.abc import Mapping

from ...store.snapshot import Snapshot, StoredObject
from ..conditions import FALSE, SERVING, TRUE, condition, described, with_condition
from ..network.networks import running_workloads
from .placement import node_of

_UNPROBED = described(SERVING, FALSE, "NotProbed", "its host has not reported on its readiness probe yet")


def is_serving(workload: StoredObject) -> bool:
    """Return whether a workload is ready: the manifest does not say otherwise, and its probe, if any, succeeds."""
    if not workload.spec.get("ready", True):
        return False
    if "readiness" not in workload.spec:
        return True
    found = condition(workload, SERVING)
    return found is not None and found["status"] == TRUE


def known_serving(workload: StoredObject, stored: StoredObject | None) -> dict | None:
    """Return the condition of a workload until its host reports; `stored` is how it was stored before.

    It stays while the workload, on the same host, has the same probe; without a probe there is none.
    """
    if "readiness" not in workload.spec:
        return None
    known = condition(stored, SERVING) if stored else None
    if known is None or _probed(stored) != _probed(workload):
        return _UNPROBED
    return {name: value for name, value in known.items() if name != "lastTransitionTime"}


def record_probes(snapshot: Snapshot, reports: Mapping[str, Mapping[str, dict]], now: str) -> None:
    """Write the condition of each running workload with a probe.

    `reports` has `ready` and `message` by host and workload; workloads of a host without any keep theirs.
    """
    for workload in running_workloads(snapshot):
        if "readiness" not in workload.spec or node_of(workload) not in reports:
            continue
        entry = reports[node_of(workload)].get(f"{workload.namespace}/{workload.name}")
        snapshot.objects[workload.key] = with_condition(workload, SERVING, _described(entry), now)


def _probed(workload: StoredObject) -> tuple[str, dict | None]:
    return node_of(workload), workload.spec.get("readiness")


def _described(entry: dict | None) -> dict:
    if entry is None:
        return _UNPROBED
    if entry["ready"]:
        return described(SERVING, TRUE, "ProbeSucceeded", "its readiness probe succeeds")
    return described(SERVING, FALSE, "ProbeFailed", entry["message"])
