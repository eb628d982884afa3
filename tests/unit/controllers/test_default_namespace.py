# SPDX-License-Identifier: Apache-2.0
"""The namespace `default` exists without a manifest, while something is in it."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_view import documents
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import decide, layer2, namespace, stored, with_gateways, workload

HOSTS = with_gateways("shared")
# As in examples: without a namespace.
SERVICE = """---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""
EVERYWHERE = """---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: all}
spec:
  namespaceSelector: {}
  network: {topology: Layer2, layer2: {role: Secondary, subnets: [10.1.0.0/24]}}
"""
LABELLED = namespace("default", primary=False).rstrip() + "\n  labels: {team: web}\n"
LATE = "2026-02-01T00:00:00Z"


def labels(snapshot) -> dict:
    return snapshot.objects["Namespace/default"].labels


def rules(*arguments, **more) -> list[str]:
    return [one.rule for one in decide(*arguments, hosts=HOSTS, **more)[1]]


def test_objects_without_a_namespace_need_no_manifest():
    after = stored(SERVICE + workload("default", "a", "node1"), hosts=HOSTS)
    assert labels(after) == {"kubernetes.io/metadata.name": "default"}
    assert build_plan(after)["services"]["default"].keys() == {"default/web"}
    again = stored(SERVICE + workload("default", "a", "node1"), after, hosts=HOSTS, now=LATE)
    assert (again.objects, again.allocations) == (after.objects, after.allocations)
    assert documents(after)["Namespace/default"]["metadata"]["name"] == "default"


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("NetworkAttachmentDefinition", "k8s.cni.cncf.io/v1", "{config: '{}'}"),
        ("Egress", "coil.cybozu.com/v2", "{destinations: [192.0.2.0/24], replicas: 1}"),
    ],
)
def test_kinds_of_other_projects_have_it_too(kind, version, spec):
    text = f"---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\nspec: {spec}\n"
    assert f"{kind}/default/web" in stored(text, hosts=HOSTS).objects
    assert "Namespace/default" not in stored("", stored(text, hosts=HOSTS), hosts=HOSTS).objects


def test_it_is_as_if_it_had_a_manifest():
    text = SERVICE + workload("default", "a", "node1") + EVERYWHERE + namespace("red", primary=False)
    assert build_plan(stored(text, hosts=HOSTS)) == build_plan(
        stored(text + namespace("default", primary=False), hosts=HOSTS)
    )


def test_without_objects_it_selects_nothing_and_changes_nothing():
    after = stored(EVERYWHERE + namespace("red", primary=False), hosts=HOSTS)
    assert "Namespace/default" not in after.objects
    assert after.objects["ClusterUserDefinedNetwork/all"].status["activeNamespaces"] == ["red"]


def test_it_goes_with_the_last_object_in_it():
    before = stored(EVERYWHERE + SERVICE, hosts=HOSTS)
    assert before.objects["ClusterUserDefinedNetwork/all"].status["activeNamespaces"] == ["default"]
    after = stored(EVERYWHERE, before, hosts=HOSTS)
    assert after.objects.keys() == stored(EVERYWHERE, hosts=HOSTS).objects.keys()


SECONDARY = """---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net}
spec: {topology: Layer2, layer2: {role: Secondary, subnets: [10.9.0.0/24]}}
"""


@pytest.mark.parametrize("others", ["", EVERYWHERE])
@pytest.mark.parametrize("given", ["", LABELLED])
def test_it_goes_with_the_last_network_in_it(others, given):
    """In the same run, so that the next one changes nothing."""
    before = stored(others + SECONDARY + given, hosts=HOSTS)
    after = stored(others, before, hosts=HOSTS)
    assert after.objects.keys() == stored(others, hosts=HOSTS).objects.keys()
    assert stored(others, after, hosts=HOSTS, now=LATE).objects == after.objects


def test_it_stays_while_a_workload_elsewhere_is_attached_to_its_definition():
    """And accepts new objects, as it is never deleted in Kubernetes."""
    text = EVERYWHERE + namespace("red", primary=False) + workload("red", "a", "node1", "default/all")
    before = stored(text + SERVICE, hosts=HOSTS)
    after = stored(text, before, hosts=HOSTS)
    assert not after.objects["Namespace/default"].is_deleting
    assert stored(text, after, hosts=HOSTS, now=LATE).objects == after.objects
    assert stored(text + SERVICE, after, hosts=HOSTS).objects == before.objects
    # What holds it is gone.
    alone = EVERYWHERE + namespace("red", primary=False)
    assert "Namespace/default" not in stored(alone, after, hosts=HOSTS).objects


def test_a_manifest_replaces_it_and_leaves_it_again():
    implicit = stored(SERVICE, hosts=HOSTS)
    given = stored(SERVICE + LABELLED, implicit, hosts=HOSTS, now=LATE)
    assert labels(given) == {"kubernetes.io/metadata.name": "default", "team": "web"}
    assert given.objects["Namespace/default"].manifest_set == "test"
    # As no manifest of it is there any more: Kubernetes does not permit to delete it.
    after = stored(SERVICE, given, hosts=HOSTS)
    assert after.objects == implicit.objects
    # Without anything in it, it is deleted as any other.
    assert "Namespace/default" not in stored("", given, hosts=HOSTS).objects


def test_the_manifest_may_be_of_another_set():
    implicit = stored(SERVICE, hosts=HOSTS)
    other = stored(LABELLED, implicit, hosts=HOSTS, manifest_set="other")
    assert other.objects["Namespace/default"].manifest_set == "other"
    assert rules(LABELLED + SERVICE, other) == ["belongs to the manifest set 'other'"]
    left = stored("", other, hosts=HOSTS, manifest_set="other")
    assert left.objects == implicit.objects


def test_a_manifest_of_the_set_without_a_name_counts():
    given = stored(LABELLED, hosts=HOSTS, manifest_set="")
    assert labels(given)["team"] == "web"
    assert "Namespace/default" not in stored("", given, hosts=HOSTS, manifest_set="").objects


def test_the_label_of_primary_networks_cannot_be_added():
    """As on any namespace that exists."""
    [rule] = rules(SERVICE + namespace("default"), stored(SERVICE, hosts=HOSTS))
    assert "cannot be added/removed after the namespace was created" in rule
    # In the first run it can, and then it is a namespace like any other.
    text = SERVICE + namespace("default") + layer2("default", "net", "10.0.0.0/24")
    given = stored(text, hosts=HOSTS)
    assert rules(SERVICE, given) == ["namespace default does not exist"]


def test_only_this_namespace_is_there_without_a_manifest():
    text = SERVICE.replace("{name: web}", "{name: dns, namespace: kube-system}")
    assert rules(text) == ["namespace kube-system does not exist"]
