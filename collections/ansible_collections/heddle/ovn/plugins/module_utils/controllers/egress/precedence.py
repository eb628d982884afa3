# SPDX-License-Identifier: Apache-2.0
"""Which of several objects that select a workload is in effect: the one that was before, as in ovn-kubernetes.

The status of a workload has it, in a field for each kind. A state of an older release has none, and the first by name
is in effect there, as for a workload that is new. Where all that select a workload are without a host for a while, the
last one stays in the status, so that it is in effect again when they have hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...store.snapshot import Snapshot, StoredObject
from ..network.attachment import workload_key

# Fields in the status of a workload: the name of the EgressIP, and `namespace/name` of the EgressService.
EGRESS_IP_IN_EFFECT = "egressIP"
EGRESS_SERVICE_IN_EFFECT = "egressService"


def in_effect(selected: Mapping[str, Iterable[StoredObject]], field: str) -> dict[str, str]:
    """Return by workload (`namespace/name`) the object that is in effect; `selected` has the workloads of each."""
    owners: dict[str, str] = {}
    for name, workloads in selected.items():
        for workload in workloads:
            key = workload_key(workload)
            if key not in owners or workload.status.get(field) == name:
                owners[key] = name
    return owners


def remembered(
    owners: Mapping[str, str], without_host: Mapping[str, Iterable[StoredObject]], field: str
) -> dict[str, str]:  # fmt: skip
    """Return what is in effect (`owners`), and what was last, for workloads of which nothing is now.

    `without_host` has the workloads of each object that has no host.
    """
    found = dict(owners)
    for name, workloads in without_host.items():
        for workload in workloads:
            if workload.status.get(field) == name:
                found.setdefault(workload_key(workload), name)
    return found


def store_in_effect(snapshot: Snapshot, field: str, owners: Mapping[str, str]) -> None:
    """Store in each workload the object that is in effect for it, or was last.

    `owners` has them by `namespace/name`.
    """
    for workload in snapshot.of_kind("Workload"):
        owner = owners.get(workload_key(workload))
        if workload.status.get(field) != owner:
            snapshot.objects[workload.key] = workload.with_status(**{field: owner})
