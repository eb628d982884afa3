# SPDX-License-Identifier: Apache-2.0
"""What policies and Services select is found by labels: twice as many of them cost twice as much."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.network.networks import networks
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.policy.policies import resolved_policies
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.policy.policy_resolver import PolicyResolver
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.services import service_endpoints, service_status
from ansible_collections.heddle.ovn.plugins.module_utils.plan.service_entries import service_entries
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from tests.pipeline import layer2, namespace, stored, workload


class Labels(dict):
    """Labels of a workload that count the looks at them."""

    looks = 0

    def get(self, *arguments):
        Labels.looks += 1
        return super().get(*arguments)

    def items(self):
        Labels.looks += 1
        return super().items()


def document(api: str, kind: str, metadata: dict, spec: dict) -> str:
    return f"---\n{json.dumps({'apiVersion': api, 'kind': kind, 'metadata': metadata, 'spec': spec})}\n"


def labelled(where: str, name: str) -> str:
    return workload(where, name, "node1").replace(
        f"namespace: {where}}}", f"namespace: {where}, labels: {{app: {name}}}}}"
    )


def policy(name: str) -> str:
    spec = {
        "podSelector": {"matchLabels": {"app": name}},
        "ingress": [
            {"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [name]}]}}]}
        ],
    }
    return document("networking.k8s.io/v1", "NetworkPolicy", {"name": name, "namespace": "t"}, spec)


def service(name: str, **more) -> str:
    spec = {"ports": [{"port": 80}], **({} if more else {"selector": {"app": name}})}
    return document("v1", "Service", {"name": name, "namespace": "t"}, spec)


def endpoints(number: int) -> str:
    name = f"w{number}"
    slices = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "t", "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": [f"10.0.0.{number + 10}"]}], "ports": [{"port": 80}],
    }  # fmt: skip
    return service(name, slices=True) + f"---\n{json.dumps(slices)}\n"


def admin(number: int) -> str:
    selected = {"matchLabels": {"kubernetes.io/metadata.name": f"t{number}"}}
    spec = {
        "priority": number, "subject": {"namespaces": selected},
        "ingress": [{"action": "Deny", "from": [{"namespaces": selected}]}],
    }  # fmt: skip
    return document("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy", {"name": f"p{number}"}, spec)


def counting(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with workloads whose labels count."""
    for entry in snapshot.of_kind("Workload"):
        snapshot.objects[entry.key] = dataclasses.replace(entry, labels=Labels(entry.labels))
    Labels.looks = 0
    return snapshot


@pytest.mark.parametrize(
    ("made", "find"), [(policy, resolved_policies), (service, service_entries)], ids=["policies", "Services"]
)  # fmt: skip
def test_looks_at_labels_grow_with_what_selects_and_what_is_selected(made, find):
    def looks(count: int) -> int:
        names = [f"w{number}" for number in range(count)]
        text = namespace("t") + layer2("t", "net", "10.0.0.0/16")
        snapshot = counting(stored(text + "".join(labelled("t", name) + made(name) for name in names)))
        assert find(snapshot, networks(snapshot))
        return Labels.looks

    four, eight, sixteen = looks(4), looks(8), looks(16)
    assert sixteen - eight == 2 * (eight - four)


def test_policies_of_the_cluster_are_resolved_where_they_select(monkeypatch):
    resolved = []
    good = PolicyResolver._admin
    monkeypatch.setattr(PolicyResolver, "_admin", lambda self, *given: resolved.append(given) or good(self, *given))

    def count(size: int) -> int:
        text = "".join(
            namespace(f"t{number}") + layer2(f"t{number}", "net", "10.0.0.0/24") + workload(f"t{number}", "w", "node1")
            + admin(number) for number in range(size)
        )  # fmt: skip
        snapshot = stored(text)
        resolved.clear()
        found = resolved_policies(snapshot, networks(snapshot))
        assert len(found) == size
        return len(resolved)

    assert (count(4), count(8)) == (4, 8)


def test_workloads_with_addresses_of_slices_are_found_by_the_addresses(monkeypatch):
    asked = []
    good = service_endpoints.given_addresses
    monkeypatch.setattr(service_endpoints, "given_addresses", lambda *given: asked.append(given) or good(*given))

    def count(services: int) -> int:
        text = namespace("t") + layer2("t", "net", "10.0.0.0/24")
        numbers = range(1, services + 1)
        snapshot = stored(
            text + "".join(workload("t", f"w{number}", "node1") + endpoints(number) for number in numbers)
        )
        found = service_endpoints.ServiceEndpoints(snapshot, networks(snapshot))
        asked.clear()
        for entry in snapshot.of_kind("Service"):
            found.backing(entry)
        return len(asked)

    four, eight, sixteen = count(4), count(8), count(16)
    assert sixteen - eight == 2 * (eight - four)


def test_the_addresses_of_hosts_are_looked_at_once_for_all_services(monkeypatch):
    looks = []
    good = service_status.addresses_of_hosts
    monkeypatch.setattr(service_status, "addresses_of_hosts", lambda given: looks.append(given) or good(given))
    beyond = "".join(endpoints(number).replace("10.0.0.", "198.51.100.") for number in range(4))
    stored(namespace("t") + layer2("t", "net", "10.0.0.0/24") + beyond)
    assert len(looks) == 1
