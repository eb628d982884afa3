# SPDX-License-Identifier: Apache-2.0
"""What is stored and reported in the status: which networks are applied where, and why others are not."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.allocation import tunnel_keys
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.network.networks import networks, running_workloads
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import decide, layer2, layer3, namespace, nodes, stored, workload

RED = namespace("red") + layer2("red", "net", "10.0.0.0/24")
NET = "UserDefinedNetwork/red/net"
SECONDARY = "Layer2, layer2: {role: Secondary, subnets: ['10.7.0.0/24']}"
PRIMARY = "Layer2, layer2: {role: Primary, subnets: ['10.8.0.0/24']}"


def cluster(name, network, selector="{}"):
    return (
        f"---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {{name: {name}}}\n"
        f"spec: {{namespaceSelector: {selector}, network: {{topology: {network}}}}}\n"
    )


def among(*names):
    values = ", ".join(names)
    return f"{{matchExpressions: [{{key: kubernetes.io/metadata.name, operator: In, values: [{values}]}}]}}"


def foreign(config, name="net", owner=""):
    return (
        "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n"
        f"metadata: {{name: {name}, namespace: red{owner}}}\nspec: {{config: '{config}'}}\n"
    )


def condition_of(snapshot, key, kind="NetworkCreated"):
    one = condition(snapshot.objects[key], kind)
    return one and (one["status"], one["reason"], one["message"])


def planned(snapshot):
    return set(build_plan(snapshot)["networks"]) - {"default"}


@pytest.mark.parametrize(
    ("text", "key", "fragment"),
    [
        (
            namespace("red", primary=False) + layer2("red", "net", "10.0.0.0/24"),
            NET,
            "invalid primary network state: namespace red lacks the label k8s.ovn.org/primary-user-defined-network",
        ),
        (
            RED + layer3("red", "other", "10.9.0.0/16", 24),
            "UserDefinedNetwork/red/other",
            "primary network already exist in namespace red: UserDefinedNetwork/red/net",
        ),
        (
            namespace("red") + layer2("red", "a-b", "10.0.0.0/24") + cluster("a.b", SECONDARY),
            "ClusterUserDefinedNetwork/a.b",
            "would have two attachments of one name: UserDefinedNetwork/red/a-b",
        ),
        (
            RED + cluster("net", SECONDARY),
            "ClusterUserDefinedNetwork/net",
            "foreign NetworkAttachmentDefinition with the desired name already exist [red/net] (it belongs to "
            "UserDefinedNetwork/red/net)",
        ),
        (
            RED + foreign("{}"),
            NET,
            "foreign NetworkAttachmentDefinition with the desired name already exist [red/net]",
        ),
        (
            RED + foreign("{}", owner=", ownerReferences: [{kind: UserDefinedNetwork, name: net, uid: other}]"),
            NET,
            "foreign NetworkAttachmentDefinition with the desired name already exist [red/net]",
        ),
        (
            RED + foreign('{"type": "ovn-k8s-cni-overlay", "role": "primary"}', name="mine"),
            NET,
            "primary network already exist in namespace red: NetworkAttachmentDefinition/red/mine",
        ),
        (namespace("red") + layer2("red", "net", "10.244.7.0/24"), NET, "with the cluster subnet 10.244.0.0/16"),
        (namespace("red") + layer2("red", "net", "10.96.0.0/24"), NET, "with the service subnet 10.96.0.0/16"),
        (namespace("red") + layer2("red", "net", "100.64.0.0/24"), NET, "with the default join subnet 100.64.0.0/16"),
        (namespace("red") + layer2("red", "net", "169.254.1.0/24"), NET, "with the masquerade subnet 169.254.0.0/17"),
        (namespace("red") + layer2("red", "net", "100.65.9.0/24"), NET, "with the network's own join subnet"),
        (namespace("red") + layer3("red", "net", "100.88.0.0/16", 24), NET, "with the transit subnet 100.88.0.0/16"),
    ],
)
def test_conflicting_network_is_reported_and_left_out(text, key, fragment):
    after = stored(text)
    status, reason, message = condition_of(after, key)
    assert (status, fragment in message) == ("False", True), message
    assert reason == ("SyncError" if key.startswith("User") else "NetworkAttachmentDefinitionSyncError")
    assert condition_of(after, key, "NetworkReady")[:2] == ("False", "NetworkNotCreated")
    assert condition(after.objects[key], "NetworkAllocationSucceeded") is None
    assert key not in {one["object"] for one in build_plan(after)["networks"].values()}
    assert stored(text, after, now="2026-01-01T09:00:00Z") == after


@pytest.mark.parametrize(
    "config", ["{}", "not json", "[1]", '{"type": "ovn-k8s-cni-overlay", "role": "secondary"}', '{"role": "primary"}']
)
def test_unrelated_user_definition_is_not_changed(config):
    after = stored(RED + foreign(config, name="mine"))
    assert condition_of(after, NET)[0] == "True"
    assert after.objects["NetworkAttachmentDefinition/red/mine"].spec == {"config": config}


def test_network_is_applied_once_its_conflict_is_gone():
    before = stored(RED + foreign("{}"), now="2026-01-01T00:00:00Z")
    after = stored(RED, before, now="2026-01-01T01:00:00Z")
    assert planned(before) == set()
    assert planned(after) == {"red_net"}
    assert condition(after.objects[NET], "NetworkCreated")["lastTransitionTime"] == "2026-01-01T01:00:00Z"


SPACES = "".join(map(namespace, "abcde"))
FIRST = cluster("net1", PRIMARY, among("a", "b", "c"))
SECOND = cluster("net2", PRIMARY, among("c", "d", "e"))


def test_later_foreign_primary_definition_is_only_reported():
    """OKEP-5193, "Validations": the status reports the conflict, and the network stays."""
    before = stored(RED)
    text = RED + foreign('{"type": "ovn-k8s-cni-overlay", "role": "primary"}', name="later")
    after = stored(text, before)
    assert condition_of(after, NET, "PrimaryNetworkConflict") == (
        "True", "PrimaryNetworkClaimedTwice",
        "NetworkAttachmentDefinition/red/later asks for a primary network in namespace red too and is ignored",
    )  # fmt: skip
    assert condition_of(after, NET)[0] == "True"
    assert build_plan(after)["networks"] == build_plan(before)["networks"]
    assert condition_of(stored(RED, after), NET, "PrimaryNetworkConflict") is None


@pytest.mark.parametrize("at_once", [True, False])
def test_the_namespace_that_two_cluster_networks_select_belongs_to_the_first(at_once):
    before = None if at_once else stored(SPACES + FIRST)
    after = stored(SPACES + FIRST + SECOND + workload("c", "w", "node1"), before)
    first, second = (after.objects[f"ClusterUserDefinedNetwork/net{number}"] for number in (1, 2))
    assert first.status["activeNamespaces"] == ["a", "b", "c"]
    assert second.status["activeNamespaces"] == ["d", "e"]
    assert condition_of(after, first.key) == (
        "True", "NetworkAttachmentDefinitionCreated",
        "NetworkAttachmentDefinition has been created in following namespaces: [a, b, c]",
    )  # fmt: skip
    assert condition_of(after, first.key, "PrimaryNetworkConflict")[2] == (
        "ClusterUserDefinedNetwork/net2 asks to be the primary network of namespace c too and is rejected"
    )
    assert condition_of(after, second.key) == (
        "False", "NetworkAttachmentDefinitionSyncError",
        "primary network already exist in namespace c: ClusterUserDefinedNetwork/net1",
    )  # fmt: skip
    found = build_plan(after)
    assert found["networks"]["cluster_udn_net2"]["namespaces"] == ["d", "e"]
    assert [one["network"] for one in found["workloads"]["c/w"]["interfaces"]] == ["default", "cluster_udn_net1"]
    later = stored(SPACES + SECOND, after)
    assert later.objects[second.key].status["activeNamespaces"] == ["c", "d", "e"]
    assert condition_of(later, second.key)[0] == "True"


def test_namespace_stays_with_the_first_network_independent_of_names():
    before = stored(SPACES + SECOND)
    after = stored(SPACES + cluster("net1", PRIMARY, among("a", "b", "c")) + SECOND, before)
    assert after.objects["ClusterUserDefinedNetwork/net1"].status["activeNamespaces"] == ["a", "b"]


@pytest.mark.parametrize(
    ("labelled", "network", "interfaces"),
    [
        (False, "", ["default"]),
        (False, layer2("red", "net", "10.0.0.0/24"), ["default"]),
        (True, "", None),
        (True, layer2("red", "net", "10.0.0.0/24"), ["default", "red_net"]),
    ],
)
def test_namespace_label_rules(labelled, network, interfaces):
    after = stored(namespace("red", primary=labelled) + network + workload("red", "w", "node1"))
    found = build_plan(after)["workloads"].get("red/w")
    assert (found and [one["network"] for one in found["interfaces"]]) == interfaces
    if interfaces is None:
        assert condition_of(after, "Workload/red/w", "Ready")[:2] == ("False", "PrimaryNetworkMissing")
    if not labelled and network:
        assert condition_of(after, NET)[0] == "False"


def test_an_unlabelled_namespace_beside_a_primary_network_elsewhere_uses_the_default_network():
    text = namespace("a") + namespace("red", primary=False) + cluster("net1", PRIMARY) + workload("red", "w", "node1")
    after = stored(text)
    assert after.objects["ClusterUserDefinedNetwork/net1"].status["activeNamespaces"] == ["a"]
    assert [one["network"] for one in build_plan(after)["workloads"]["red/w"]["interfaces"]] == ["default"]


def test_a_waiting_workload_starts_when_its_network_comes():
    before = stored(namespace("red") + workload("red", "w", "node1"))
    after = stored(RED + workload("red", "w", "node1"), before)
    assert [entry.key for entry in running_workloads(after)] == ["Workload/red/w"]


def test_no_primary_network_for_namespace_with_running_workloads():
    base = namespace("red", primary=False) + workload("red", "w", "node1")
    after = stored(base + layer2("red", "net", "10.0.0.0/24"), stored(base))
    assert "namespace red has workloads without a primary network: [red/w]" in condition_of(after, NET)[2]
    assert "eth0" in {one["name"] for one in build_plan(after)["workloads"]["red/w"]["interfaces"]}


def test_new_and_relabelled_namespaces_are_followed():
    wide = cluster("wide", SECONDARY, "{matchLabels: {tenant: red}}")
    labelled = namespace("b", primary=False).rstrip() + "\n  labels: {tenant: red}\n"
    before = stored(namespace("b", primary=False) + wide)
    assert condition_of(before, "ClusterUserDefinedNetwork/wide")[2].endswith("in following namespaces: []")
    assert planned(before) == set()
    after = stored(labelled + wide, before)
    assert networks(after)["cluster_udn_wide"].namespaces == ("b",)
    assert planned(stored(namespace("b", primary=False) + wide, after)) == set()


def test_growing_into_other_subnets_is_refused_for_applied_networks():
    text = namespace("red") + layer3("red", "net", "10.9.0.0/16", 24)
    grown = text.replace("subnets: [", "subnets: [{cidr: '10.96.0.0/16', hostSubnet: 24}, ")
    _after, problems = decide(grown, stored(text))
    assert [("service subnet" in str(one), "network exists" in str(one)) for one in problems] == [(True, True)]


def test_network_without_ids_is_stored_and_not_applied():
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24").replace(
        "role: Primary", "role: Primary, joinSubnets: [100.70.0.0/30]"
    )
    after = stored(text + workload("red", "w", "node1"))
    status, reason, message = condition_of(after, NET, "NetworkAllocationSucceeded")
    assert (status, reason) == ("False", "InternalError")
    assert "join subnet 100.70.0.0/30 is too small: number 4 of it is needed" in message
    assert condition_of(after, NET)[0] == "True"
    assert condition_of(after, NET, "NetworkReady")[:2] == ("False", "NetworkNotAllocated")
    assert condition_of(after, "Workload/red/w", "Ready")[1] == "PrimaryNetworkMissing"
    assert (planned(after), after.allocations["network-id"]) == (set(), {})
    assert stored(text + workload("red", "w", "node1"), after) == after


@pytest.mark.parametrize(
    ("settings", "fragment"),
    [
        ({"masquerade_subnets": ["169.254.169.0/29"]}, "masquerade subnet 169.254.169.0/29 is too small"),
        ({"masquerade_subnets": ["fd69::/112"]}, "there is no IPv4 masquerade subnet"),
    ],
)
def test_exhausted_ranges(settings, fragment):
    assert fragment in condition_of(stored(RED, settings=settings), NET, "NetworkAllocationSucceeded")[2]


def test_a_network_with_too_few_host_subnets_is_on_the_hosts_that_got_one():
    text = namespace("red") + layer3("red", "net", "10.9.0.0/25", 26)
    text += "".join(workload("red", f"w{number}", f"node{number}") for number in (1, 2, 3))
    after = stored(text)
    status, reason, message = condition_of(after, NET, "NetworkAllocationSucceeded")
    assert (status, reason) == ("False", "InternalError")
    assert message.startswith("failed to allocate for node node3: host subnets in 10.9.0.0/25: 3 are wanted, all 2")
    assert sorted(build_plan(after)["workloads"]) == ["red/w1", "red/w2"]
    assert condition_of(after, "Workload/red/w3", "Ready")[1] == "NetworkNotOnNode"
    rows = {node: {row.key for row in render_northbound(build_plan(after), node)} for node in ("node1", "node3")}
    assert "red_net_node1" in rows["node1"]
    assert "red_net_tstor-node2" in rows["node1"]
    assert "red_net_tstor-node3" not in rows["node1"]
    assert not any("red_net" in key for key in rows["node3"])
    assert stored(text, after) == after


def test_host_without_subnet_does_not_affect_other_hosts():
    text = namespace("red") + layer3("red", "net", "10.9.0.0/25", 26)
    before = stored(text, hosts=nodes("node1", "node2"))
    after = stored(text, before)
    assert set(build_plan(after)["networks"]["red_net"]["host_subnets"]) == {"node1", "node2"}


def test_a_primary_network_has_only_families_that_the_cluster_has():
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd01::/64")
    settings = {"cluster_subnets": ["10.244.0.0/16/24"]}
    assert (
        condition_of(stored(text, settings=settings), NET)[2]
        == "the network has IPv6 subnets, and the cluster has no IPv6"
    )
    secondary = text.replace("role: Primary", "role: Secondary")
    assert condition_of(stored(secondary, settings=settings), NET)[0] == "True"


@pytest.mark.parametrize(
    ("pool", "ends", "fragment"),
    [("NETWORK_IDS", (1, 1), "network ids"), ("DYNAMIC_TUNNEL_KEYS", (16715779, 16715779), "tunnel keys")],
)
def test_exhaustion_keeps_existing_allocations(monkeypatch, pool, ends, fragment):
    monkeypatch.setattr(tunnel_keys, pool, ends)
    text = RED + namespace("blue") + layer2("blue", "net", "10.0.0.0/24") + workload("blue", "w", "node1")
    before = stored(RED)
    after = stored(text, before)
    key = "UserDefinedNetwork/blue/net"
    status, reason, message = condition_of(after, key, "NetworkAllocationSucceeded")
    assert (status, reason, fragment in message) == ("False", "InternalError", True), message
    assert planned(after) == {"red_net"}
    assert condition_of(after, "Workload/blue/w", "Ready")[1] == "PrimaryNetworkMissing"
    assert (after.allocations["network-id"], after.cursors) == (before.allocations["network-id"], before.cursors)
    annotations = after.objects["NetworkAttachmentDefinition/blue/net"].manifest["metadata"]["annotations"]
    assert annotations == {"k8s.ovn.org/network-name": "blue_net"}
    assert stored(text, after, now="2027-01-01T00:00:00Z") == after
    freed = stored(text.removeprefix(RED), after)
    assert planned(freed) == {"blue_net"}
    assert condition_of(freed, "Workload/blue/w", "Ready")[0] == "True"


def test_the_last_address_of_a_subnet_can_be_used_and_one_more_workload_waits():
    text = namespace("red") + layer2("red", "net", "10.0.0.0/29")
    full = text + "".join(workload("red", f"w{number}", "node1") for number in range(4))
    before = stored(full)
    pool = "address/red_net/10.0.0.0/29"
    assert sorted(before.allocations[pool].values()) == [f"10.0.0.{last}" for last in range(3, 7)]
    after = stored(full + workload("red", "w9", "node2"), before)
    assert after.allocations == before.allocations
    status, reason, message = condition_of(after, "Workload/red/w9", "Ready")
    assert (status, reason) == ("False", "AllocationFailed")
    assert "5 are wanted, all 4 are taken" in message
    later = stored(full + workload("red", "w9", "node2"), after, now="2027-01-01T00:00:00Z")
    assert later == after
    again = stored(text + "".join(workload("red", f"w{number}", "node1") for number in (0, 1, 2, 9)), after)
    assert condition_of(again, "Workload/red/w9", "Ready")[0] == "True"


def test_status_has_ids_keys_and_transit_subnet():
    after = stored(namespace("red") + layer2("red", "net", "100.88.0.0/17", "fd01::/64"))
    assert after.objects[NET].status["network"] == {
        "name": "red_net",
        "id": 1,
        "tunnelKeys": [16711684, 16715779],
        "transitSubnets": ["100.89.0.0/16", "fd97::/64"],
    }
    assert condition_of(after, NET) == (
        "True", "NetworkAttachmentDefinitionCreated", "NetworkAttachmentDefinition has been created",
    )  # fmt: skip
    assert (
        condition_of(after, NET, "NetworkAllocationSucceeded")[2]
        == "Network allocation succeeded for all synced nodes."
    )
    assert condition_of(after, NET, "NetworkReady")[:2] == ("Unknown", "WaitingForHosts")


def test_the_same_manifests_later_change_nothing():
    text = SPACES + FIRST + SECOND + workload("c", "w", "node1") + workload("d", "w", "node2")
    before = stored(text)
    assert stored(text, before, now="2027-01-01T00:00:00Z") == before


def test_unnamed_manifest_set_is_an_ordinary_set():
    text = RED + workload("red", "w", "node1")
    before = stored(text, manifest_set="")
    assert stored(text, before, manifest_set="", now="2027-01-01T00:00:00Z") == before


RUNNING = RED + "".join(workload("red", f"w{number}", f"node{number}") for number in (1, 2, 3))
SELECTING = RED + "".join(workload("red", f"w{number}", f"node{number}", "small") for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("change", "key", "fragment"),
    [
        (
            layer2("red", "small", "10.9.0.0/30").replace("Primary", "Secondary"),
            "Workload/red/w3",
            "it runs, and would have to stop: addresses in 10.9.0.0/30 of red_small: 3 are wanted, all 2 are taken",
        ),
        (
            layer3("red", "small", "10.9.0.0/24", 25).replace("Primary", "Secondary"),
            "Workload/red/w3",
            "it runs, and would have to stop: UserDefinedNetwork/red/small got no subnets for node node3",
        ),
    ],
)
def test_new_network_does_not_stop_running_workloads(change, key, fragment):
    before = stored(RUNNING)
    assert not decide(RUNNING + change, before)[1]
    _after, problems = decide(SELECTING + change, before)
    assert [problem.resource for problem in problems] == [key]
    assert fragment in str(problems[0])
    fewer = SELECTING.replace(workload("red", "w3", "node3", "small"), "")
    assert not decide(fewer + change, before)[1]
    assert before == stored(RUNNING, before)
