# SPDX-License-Identifier: Apache-2.0
"""Refusals as by an API server: each case, and that all errors are reported at once."""

import dataclasses

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.network.networks import running_workloads
from ansible_collections.heddle.ovn.plugins.module_utils.render.southbound import render_southbound
from ansible_collections.heddle.ovn.plugins.module_utils.store.settings import complete
from tests.pipeline import THREE_NODES, decide, layer2, namespace, plan_of, stored, workload

CLUSTER = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {{name: wide}}\n"
    "spec: {{namespaceSelector: {{}}, network: {{topology: {}}}}}\n"
)
EMPTY = namespace("empty", primary=False)
RED = namespace("red") + layer2("red", "net", "10.0.0.0/24")


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        (layer2("red", "net", "10.0.0.0/24"), "namespace red does not exist"),
        (RED + workload("red", "w", "nowhere"), "node nowhere is not in the inventory"),
        (RED + workload("blue", "w", "node1"), "namespace blue does not exist"),
        (
            namespace("a") + layer2("a", "b-c", "10.0.0.0/24") + layer2("a", "b.c", "10.0.1.0/24"),
            "its objects would have the same names",
        ),
    ],
)
def test_refused(text, fragment):
    _after, problems = decide(text)
    assert any(fragment in str(problem) for problem in problems), [str(problem) for problem in problems]
    assert all(problem.remedy for problem in problems)


def test_all_problems_come_at_once():
    _after, problems = decide(RED + workload("red", "w", "nowhere") + workload("blue", "x", "node1"))
    assert {problem.resource for problem in problems} == {"Workload/red/w", "Workload/blue/x"}


def test_equal_subnets_of_two_networks_are_fine():
    _after, problems = decide(RED + namespace("blue") + layer2("blue", "net", "10.0.0.0/24"))
    assert not problems


def test_a_subnet_cannot_be_changed_later():
    before, _problems = decide(RED)
    _after, problems = decide(namespace("red") + layer2("red", "net", "10.0.1.0/24"), before)
    assert "immutable" in str(problems[0])


def test_another_manifest_set_keeps_its_objects_and_their_names():
    before = stored(RED, manifest_set="other")
    after = stored(namespace("blue"), before)
    assert "UserDefinedNetwork/red/net" in after.objects
    _after, problems = decide(namespace("red"), before)
    assert "belongs to the manifest set 'other'" in str(problems[0])


def test_a_set_may_use_the_namespaces_of_another():
    after = stored(workload("red", "w", "node1"), stored(RED, manifest_set="other"))
    assert [entry.key for entry in running_workloads(after)] == ["Workload/red/w"]


@pytest.mark.parametrize(
    ("had", "has"), [(True, True), (False, False), (True, False), (False, True)], ids=lambda one: f"label={one}"
)
def test_namespace_label_is_immutable(had, has):
    before = stored(namespace("red", primary=had))
    _after, problems = decide(namespace("red", primary=has), before)
    refused = "cannot be added/removed after the namespace was created"
    assert [refused in str(problem) for problem in problems] == ([] if had == has else [True])


@pytest.mark.parametrize(
    ("settings", "fragments"),
    [
        ({"networks_total": 2, "networks_per_namespace": 2}, []),
        ({"networks_total": 1}, ["the limit networks_total is 1, and there would be 2 networks"]),
        (
            {"networks_per_namespace": 1},
            ["the limit networks_per_namespace is 1, and namespace red would have 2 networks"],
        ),
        ({"networks_total": 0, "networks_per_namespace": 0}, []),
    ],
)
def test_limits(settings, fragments):
    text = RED + CLUSTER.format("Layer2, layer2: {role: Secondary, subnets: [10.7.0.0/24]}")
    before = stored(RED)
    _after, problems = decide(text, before, settings=settings)
    assert [fragment in str(problem) for problem, fragment in zip(problems, fragments, strict=True)] == [True] * len(
        fragments
    )


def test_new_limit_refuses_only_new_networks():
    text = RED + CLUSTER.format("Layer2, layer2: {role: Secondary, subnets: [10.7.0.0/24]}")
    stored(text, stored(text), settings={"networks_total": 1, "networks_per_namespace": 1})


LIMITED = [{"networks_total": 1}, {"networks_per_namespace": 1}]


@pytest.mark.parametrize("settings", LIMITED)
def test_network_may_replace_another_at_the_limit(settings):
    stored(namespace("red") + layer2("red", "other", "10.0.0.0/24"), stored(RED, settings=settings), settings=settings)


@pytest.mark.parametrize("settings", LIMITED)
def test_network_may_not_replace_another_beyond_the_limit(settings):
    secondary = CLUSTER.format("Layer2, layer2: {role: Secondary, subnets: [10.7.0.0/24]}")
    text = namespace("red") + layer2("red", "other", "10.0.0.0/24") + secondary
    _after, problems = decide(text, stored(RED + secondary), settings=settings)
    assert ["is 1, and" in str(problem) and "2 networks" in str(problem) for problem in problems] == [True]


def test_network_in_use_counts_towards_the_limit():
    user = workload("red", "w", "node1")
    other = namespace("red") + user + layer2("red", "other", "10.0.0.0/24")
    _after, problems = decide(other, stored(RED + user), settings={"networks_total": 1})
    assert ["is 1, and there would be 2 networks" in str(problem) for problem in problems] == [True]


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"chassis": "chassis-of-node1"}, "has the same system-id of Open vSwitch chassis-of-node1 as node node1"),
        ({"encap_ips": ["198.18.1.11"]}, "has the same tunnel address 198.18.1.11 as node node1"),
    ],
)
def test_cloned_hosts_are_refused(change, fragment):
    hosts = {**THREE_NODES, "node2": {**THREE_NODES["node2"], **change}}
    _after, problems = decide(RED, hosts=hosts)
    assert [fragment in str(problem) for problem in problems] == [True]


@pytest.mark.parametrize("name", ["join", "rack_1", "Rack"])
def test_names_that_cannot_name_a_host_are_refused(name):
    _after, problems = decide("", hosts={name: {}})
    assert f"{name} cannot name a host in OVN" in str(problems[0])


RANGES = {
    "join_subnets": ["100.64.0.0/16", "fd98::/64"],
    "network_join_subnets": ["100.65.0.0/16", "fd99::/64"],
    "transit_subnets": ["100.88.0.0/16", "fd97::/64"],
    "masquerade_subnets": ["169.254.0.0/17", "fd69::/112"],
    "service_subnets": ["10.96.0.0/16", "fd00:10:96::/112"],
}


@pytest.mark.parametrize("name", RANGES)
def test_used_ranges_are_immutable(name):
    first, second = RANGES[name]
    before = stored(RED)
    for moved in ([second], ["172.30.0.0/16", second], [first.replace("/16", "/20").replace("/17", "/20"), second]):
        _after, problems = decide(RED, before, settings={name: moved})
        assert [problem.path for problem in problems] == [name], moved
        assert "put the old value back" in problems[0].remedy
    grown = [first.replace("/16", "/15").replace("/17", "/16"), second]
    if name in ("service_subnets", "transit_subnets", "masquerade_subnets"):
        _after, problems = decide(RED, before, settings={name: grown})
        assert not problems
    _after, problems = decide(RED, stored("", hosts={}), settings={name: ["172.30.0.0/16", second]})
    assert not problems


def test_the_join_subnet_that_no_network_takes_by_default_may_change():
    own = RED.replace("subnets:", 'joinSubnets: ["100.70.0.0/16"], subnets:')
    _after, problems = decide(own, stored(own), settings={"network_join_subnets": ["100.71.0.0/16", "fd99::/64"]})
    assert not problems


def test_cluster_subnets_are_immutable():
    before, _problems = decide(RED)
    _after, problems = decide(RED, before, settings={"cluster_subnets": ["10.200.0.0/16/24"]})
    assert "cannot be changed: hosts have subnets of 10.244.0.0/16/24" in str(problems[0])


def test_subnets_of_the_settings_have_the_standard_notation():
    """Others compare them as text; a state of an older release has them as they were written."""
    text = {"cluster_subnets": ["FD00:10:244:0::/48/064"], "service_subnets": ["fd00:10:96:0:0::/112"]}
    settings = complete(text)
    assert settings["cluster_subnets"] == ["fd00:10:244::/48/64"]
    assert settings["service_subnets"] == ["fd00:10:96::/112"]
    before = stored(EMPTY, settings=text)
    older = dataclasses.replace(before, settings={**before.settings, **text})
    assert stored(EMPTY, older, settings=text).settings == settings
    _after, problems = decide(EMPTY, older, settings={**text, "cluster_subnets": ["fd00:10:245::/48/64"]})
    assert "cannot be changed" in str(problems[0])


def test_ranges_have_room_for_every_host():
    _after, problems = decide(RED, settings={"join_subnets": ["100.64.0.0/31", "fd98::/64"]})
    assert any(
        str(problem).startswith("inventory (Settings): spec: join subnet 100.64.0.0/31 is too small")
        for problem in problems
    )


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        ({"join_subnets": ["10.244.0.0/16"]}, "overlaps with 10.244.0.0/16"),
        ({"join_subnets": "100.64.0.0/16"}, "must be a list of subnets"),
        ({"cluster_subnets": ["10.244.0.0/16/x"]}, "10.244.0.0/16/x"),
        ({"cluster_subnets": ["10.244.0.0/16/15"]}, "HOST_PREFIX must be from 16 to 32, not 15"),
        ({"cluster_subnets": ["10.244.0.0/16/33"]}, "HOST_PREFIX must be from 16 to 32, not 33"),
        ({"cluster_subnets": ["10.244.0.0/25"]}, "HOST_PREFIX must be from 25 to 32, not 24"),
        ({"cluster_subnets": ["fd00:10::/48/129"]}, "HOST_PREFIX must be from 48 to 128, not 129"),
        ({"cluster_domain": "Cluster.local"}, "cluster_domain: must be a domain in lower case"),
        ({"cluster_domain": 5}, "such as cluster.local, not 5"),
        ({"cluster_domain": ".".join(["a" * 60] * 2)}, "of up to 100 characters"),
        ({"service_subnets": ["10.96.0.0/16/24"]}, "10.96.0.0/16/24: must be ADDRESS/PREFIX"),
        ({"service_subnets": ["10.96.0.0"]}, "10.96.0.0: must be ADDRESS/PREFIX"),
        ({"transit_subnets": ["100.88.0.1/16"]}, "100.88.0.1/16 has host bits set"),
        ({"join_subnets": ["100.64.0.0/16", "100.60.0.0/16"]}, "must have one subnet of each family"),
        ({"layer2_topology": []}, "setting layer2_topology: must be transit-router or gateway-router"),
        ({1: 2, "colour": "red"}, "unknown setting 1"),
        ({"mtu": "9000"}, "must be a number from 576 to 65535"),
        ({"colour": "red"}, "unknown setting colour"),
        ({"networks_total": -1}, "setting networks_total: must be a number, 0 for no limit"),
        ({"networks_per_namespace": True}, "setting networks_per_namespace: must be a number, 0 for no limit"),
    ],
)
def test_settings_are_checked(given, fragment):
    with pytest.raises(ValueError, match=fragment):
        complete(given)


def test_a_host_that_was_reinstalled_keeps_its_tunnel_row():
    before = {row.key for row in render_southbound(plan_of(RED), "node1") if row.table == "Encap"}
    hosts = {**THREE_NODES, "node2": {**THREE_NODES["node2"], "chassis": "new-chassis"}}
    after = [row for row in render_southbound(plan_of(RED, hosts=hosts), "node1") if row.table == "Encap"]
    assert {row.key for row in after} == before
    assert "new-chassis" in {row.columns["chassis_name"] for row in after}
