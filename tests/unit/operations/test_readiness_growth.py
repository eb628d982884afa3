# SPDX-License-Identifier: Apache-2.0
"""What readiness costs: reports of hosts are prepared once, for all networks and policies of the cluster."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.operations import readiness
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import with_readiness
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_files import status_files
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_text import status_table
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import state_view
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from tests.pipeline import THREE_NODES, layer2, namespace, stored, workload


class Walked(dict):
    """Reports that count how often they are walked."""

    walks = 0

    def __iter__(self):
        Walked.walks += 1
        return super().__iter__()

    def items(self):
        Walked.walks += 1
        return super().items()


def tenants(count: int) -> str:
    return "".join(
        namespace(name) + layer2(name, "net", "10.0.0.0/24") + workload(name, "w", "node1")
        for name in (f"t{number}" for number in range(count))
    )


def policies(count: int) -> str:
    return "".join(
        "---\napiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\n"
        f"metadata: {{name: p{number}}}\nspec: {{priority: {number}, subject: {{namespaces: {{}}}}, "
        "ingress: [{action: Deny, from: [{namespaces: {}}]}]}\n"
        for number in range(count)
    )


def kept(text: str) -> Snapshot:
    """Return the state of these manifests as the database holds it: with a revision."""
    return dataclasses.replace(stored(text), revision=1)


def reports(snapshot: Snapshot) -> Walked:
    digests = state_view(snapshot)["host_plans"]
    return Walked({node: {"digest": digest, "drift": [], "problems": []} for node, digest in digests.items()})


def recorded(snapshot: Snapshot, hosts: dict) -> bool:
    return with_readiness(snapshot, hosts, "2026-01-01T00:00:00Z") is not snapshot


def shown(snapshot: Snapshot, hosts: dict) -> str:
    return status_table(state_view(snapshot), hosts)


def summarised(snapshot: Snapshot, hosts: dict) -> str:
    return status_table(state_view(snapshot), hosts, summary=True)


def written(snapshot: Snapshot, hosts: dict) -> dict:
    return status_files(state_view(snapshot), hosts)


@pytest.mark.parametrize("use", [recorded, shown, summarised, written])
def test_reports_are_walked_as_often_for_many_networks_as_for_few(use):
    def walks(count: int) -> int:
        snapshot = kept(tenants(count))
        hosts = reports(snapshot)
        Walked.walks = 0
        assert use(snapshot, hosts)
        return Walked.walks

    assert walks(2) == walks(8)


def test_the_states_of_all_networks_are_found_once_for_all_policies_of_the_cluster(monkeypatch):
    found = []
    good = readiness._of_every_network
    monkeypatch.setattr(readiness, "_of_every_network", lambda *given: found.append(given) or good(*given))
    snapshot = kept(tenants(2) + policies(4))
    after = with_readiness(snapshot, reports(snapshot), "2026-01-01T00:00:00Z")
    assert len(found) == 1
    for entry in after.of_kind("AdminNetworkPolicy"):
        assert {one["type"] for one in entry.status["conditions"]} >= {f"Ready-In-Zone-{name}" for name in THREE_NODES}
