# SPDX-License-Identifier: Apache-2.0
"""What is deleted at once, what waits for its users, and in which order things go."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import decide, layer2, namespace, stored, workload
from tests.unit.controllers.test_network_status import NET, PRIMARY, SECONDARY, among, cluster, condition_of

SPACE = namespace("red")
RED = SPACE + layer2("red", "net", "10.0.0.0/24")
WORKLOAD = workload("red", "w", "node1")
LATER = "2026-01-01T05:00:00Z"


def kinds(snapshot):
    return {entry.kind for entry in snapshot.objects.values()} - {"Node"}


def test_removal_of_a_whole_set_in_one_run():
    empty = stored("")
    after = stored("", stored(RED + WORKLOAD, empty))
    assert after.objects == empty.objects
    assert after.allocations == empty.allocations


def test_deleted_network_is_applied_until_its_last_user_is_deleted():
    before = stored(RED + WORKLOAD)
    waiting = stored(SPACE + WORKLOAD, before, now=LATER)
    entry = waiting.objects[NET]
    assert entry.status["deletionTimestamp"] == LATER
    assert condition_of(waiting, NET) == (
        "False",
        "SyncError",
        "failed to delete NetworkAttachmentDefinition [red/net]: network in use by the following pods: [red/w]",
    )
    assert waiting.objects["NetworkAttachmentDefinition/red/net"].is_deleting
    assert build_plan(waiting)["digest"] == build_plan(before)["digest"]
    assert stored(SPACE + WORKLOAD, waiting, now="2026-01-02T00:00:00Z") == waiting

    gone = stored(SPACE, waiting)
    assert kinds(gone) == {"Namespace"}
    assert set(build_plan(gone)["networks"]) == {"default"}


def test_network_in_deletion_accepts_no_new_workload():
    secondary = cluster("wide", SECONDARY)
    base = namespace("red", primary=False) + workload("red", "w", "node1", "wide")
    waiting = stored(base + workload("red", "new", "node2", "wide"), stored(base + secondary))
    assert condition_of(waiting, "Workload/red/new", "Ready")[:2] == ("False", "NetworkDeleting")
    assert condition_of(waiting, "Workload/red/w", "Ready")[0] == "True"
    assert list(build_plan(waiting)["workloads"]) == ["red/w"]
    gone = stored(namespace("red", primary=False) + workload("red", "new", "node2"), waiting)
    assert [one["network"] for one in build_plan(gone)["workloads"]["red/new"]["interfaces"]] == ["default"]


def test_object_in_deletion_cannot_be_created_again():
    waiting = stored(SPACE + WORKLOAD, stored(RED + WORKLOAD))
    _after, problems = decide(RED + WORKLOAD, waiting)
    assert ["is being deleted since" in str(problem) for problem in problems] == [True]
    stored(RED, stored(SPACE, waiting))


def test_waiting_network_is_applied_in_the_run_that_deletes_the_other():
    other = layer2("red", "next", "10.1.0.0/24")
    waiting = stored(SPACE + WORKLOAD + other, stored(RED + WORKLOAD))
    assert "primary network already exist in namespace red" in condition_of(waiting, "UserDefinedNetwork/red/next")[2]
    after = stored(SPACE + other, waiting)
    assert set(build_plan(after)["networks"]) == {"default", "red_next"}


@pytest.mark.parametrize("change", ["selector", "label"])
def test_deselected_namespace_keeps_a_network_in_use(change):
    spaces = (
        namespace("a")
        + "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: b\n"
        + ('  labels: {k8s.ovn.org/primary-user-defined-network: "", tenant: red}\n')
    )
    users = workload("b", "w", "node1")
    if change == "selector":
        wide, narrow, relabelled = cluster("n", PRIMARY, among("a", "b")), cluster("n", PRIMARY, among("a")), spaces
    else:
        wide = cluster("n", PRIMARY, "{matchLabels: {tenant: red}}")
        narrow, relabelled = wide, spaces.replace("tenant: red", "tenant: blue")
    key = "ClusterUserDefinedNetwork/n"
    before = stored(spaces + wide + users)
    waiting = stored(relabelled + narrow + users, before)
    assert "b" not in (waiting.objects[key].status["activeNamespaces"])
    assert "network in use by the following pods: [b/w]" in condition_of(waiting, key)[2]
    assert not waiting.objects[key].is_deleting
    assert "b/w" in build_plan(waiting)["workloads"]
    after = stored(relabelled + narrow, waiting)
    assert condition_of(after, key)[0] == "True"
    assert "NetworkAttachmentDefinition/b/n" not in after.objects


def test_cluster_network_is_deleted_namespace_by_namespace():
    spaces = namespace("a") + namespace("b")
    before = stored(spaces + cluster("n", PRIMARY) + workload("a", "w", "node1"))
    waiting = stored(spaces + workload("a", "w", "node1"), before)
    assert build_plan(waiting)["networks"]["cluster_udn_n"]["namespaces"] == ["a"]
    assert waiting.objects["ClusterUserDefinedNetwork/n"].status["activeNamespaces"] == []
    assert "ClusterUserDefinedNetwork/n" not in stored(spaces, waiting).objects


def test_namespace_waits_for_objects_of_other_sets():
    before = stored(workload("red", "w", "node1"), stored(RED, manifest_set="net"))
    waiting = stored("", before, manifest_set="net", now=LATER)
    entry = waiting.objects["Namespace/red"]
    assert entry.status["phase"] == "Terminating"
    assert "Workload/red/w" in condition(entry, "NamespaceContentRemaining")["message"]
    assert "red/w" in build_plan(waiting)["workloads"]

    _after, problems = decide(workload("red", "w", "node1") + workload("red", "w2", "node1"), waiting)
    assert ["unable to create new content in namespace red" in str(problem) for problem in problems] == [True]
    stored(workload("red", "w", "node1"), waiting)

    networks = stored(RED.removeprefix(SPACE), stored(SPACE, manifest_set="other"))
    ending = stored("", networks, manifest_set="other")
    assert condition_of(ending, NET)[2] == "namespace red is being terminated"
    assert set(build_plan(ending)["networks"]) == {"default"}

    gone = stored("", waiting)
    assert kinds(gone) == set()
    assert set(build_plan(gone)["networks"]) == {"default"}


def test_namespace_with_objects_of_its_own_set_is_not_deleted():
    _after, problems = decide(WORKLOAD, stored(RED + WORKLOAD))
    assert ["namespace red does not exist" in str(problem) for problem in problems] == [True]


def test_waiting_workload_is_no_user():
    before = stored(SPACE + WORKLOAD)
    assert kinds(stored(SPACE, before)) == {"Namespace"}
