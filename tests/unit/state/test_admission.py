# SPDX-License-Identifier: Apache-2.0
"""Rules across objects: each refused case, and that everything wrong is said at once."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render import render_southbound
from ansible_collections.heddle.ovn.plugins.module_utils.state.settings import complete
from tests.pipeline import THREE_NODES, decide, layer2, layer3, namespace, plan_of, workload

CLUSTER = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {{name: wide}}\n"
    "spec: {{namespaceSelector: {{}}, network: {{topology: {}}}}}\n"
)
LOCALNET = CLUSTER.format("Localnet, localnet: {role: Secondary, physicalNetworkName: phys, subnets: [10.7.0.0/24]}")
WITHOUT_IPAM = CLUSTER.format("Layer2, layer2: {role: Secondary, ipam: {mode: Disabled}}")
RED = namespace("red") + layer2("red", "net", "10.0.0.0/24")


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        (
            namespace("red")
            + layer2("red", "net", "10.0.0.0/24").replace(
                "role: Primary", "role: Primary, joinSubnets: [100.70.0.0/30]"
            ),
            "join subnet 100.70.0.0/30 is too small: number 4 of it is needed",
        ),
        (
            RED + CLUSTER.format("Layer2, layer2: {role: Secondary, subnets: [10.7.0.0/24]}").replace("wide", "net"),
            "namespace red would have two attachments of one name",
        ),
        (
            namespace("red")
            + layer2("red", "net", "10.0.0.0/24").replace(
                "role: Primary", "role: Primary, defaultGatewayIPs: [10.0.0.9]"
            ),
            "chosen gateway addresses are not supported yet",
        ),
        (RED + LOCALNET, "Localnet networks are not supported yet"),
        (RED + WITHOUT_IPAM, "networks without IPAM are not supported yet"),
        (RED + layer3("red", "other", "10.9.0.0/16", 24), "primary network already exist in namespace red"),
        (namespace("red", primary=False) + layer2("red", "net", "10.0.0.0/24"), "lacks the label"),
        (layer2("red", "net", "10.0.0.0/24"), "namespace red does not exist"),
        (RED + workload("red", "w", "nowhere"), "node nowhere is not in the inventory"),
        (RED + workload("blue", "w", "node1"), "namespace blue does not exist"),
        (namespace("red") + workload("red", "w", "node1"), "labelled for a primary network and has none"),
        (namespace("red") + layer2("red", "net", "10.244.7.0/24"), "with the cluster subnet 10.244.0.0/16"),
        (namespace("red") + layer2("red", "net", "10.96.0.0/24"), "with the service subnet 10.96.0.0/16"),
        (namespace("red") + layer2("red", "net", "100.64.0.0/24"), "with the default join subnet 100.64.0.0/16"),
        (namespace("red") + layer2("red", "net", "169.254.1.0/24"), "with the masquerade subnet 169.254.0.0/17"),
        (namespace("red") + layer2("red", "net", "100.65.9.0/24"), "with the network's own join subnet"),
        (namespace("red") + layer3("red", "net", "100.88.0.0/16", 24), "with the transit subnet 100.88.0.0/16"),
        (
            namespace("red") + layer3("red", "net", "10.9.0.0/25", 26),
            "host subnets in 10.9.0.0/25: 3 are wanted, all 2 are taken; add a subnet to the network",
        ),
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


def test_the_last_address_of_a_subnet_can_be_used_and_one_more_is_refused():
    text = namespace("red") + layer2("red", "net", "10.0.0.0/29")
    full = text + "".join(workload("red", f"w{number}", "node1") for number in range(4))
    after, problems = decide(full)
    assert not problems
    assert sorted(after.allocations["address/red_net/10.0.0.0/29"].values()) == [
        f"10.0.0.{last}" for last in range(3, 7)
    ]
    _after, problems = decide(full + workload("red", "w9", "node2"))
    assert [problem.resource for problem in problems] == ["Workload/red/w9"]
    assert "addresses in 10.0.0.0/29 of red_net: 5 are wanted, all 4 are taken" in str(problems[0])


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
    before, _problems = decide(RED)
    for key, entry in list(before.objects.items()):
        if entry.kind != "Node":
            before.objects[key] = type(entry)(**{**entry.__dict__, "manifest_set": "other"})
    after, problems = decide(namespace("blue"), before)
    assert not problems
    assert "UserDefinedNetwork/red/net" in after.objects
    _after, problems = decide(namespace("red"), before)
    assert "belongs to the manifest set 'other'" in str(problems[0])


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"chassis": "chassis-of-node1"}, "has the same system-id of Open vSwitch chassis-of-node1 as node node1"),
        ({"encapsulation": ["198.18.1.11"]}, "has the same tunnel address 198.18.1.11 as node node1"),
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


def test_cluster_subnets_stay():
    before, _problems = decide(RED)
    _after, problems = decide(RED, before, settings={"cluster_subnets": ["10.200.0.0/16/24"]})
    assert "cannot be changed: hosts have subnets of 10.244.0.0/16/24" in str(problems[0])


@pytest.mark.parametrize(
    ("settings", "fragment"),
    [
        ({"masquerade_subnets": ["169.254.169.0/29"]}, "masquerade subnet 169.254.169.0/29 is too small"),
        ({"masquerade_subnets": ["fd69::/112"]}, "there is no IPv4 masquerade subnet"),
        ({"join_subnets": ["100.64.0.0/31", "fd98::/64"]}, "join subnet 100.64.0.0/31 is too small"),
    ],
)
def test_ranges_have_room_for_every_id(settings, fragment):
    _after, problems = decide(RED, settings=settings)
    assert any(fragment in str(problem) for problem in problems), [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        ({"join_subnets": ["10.244.0.0/16"]}, "overlaps with 10.244.0.0/16"),
        ({"join_subnets": "100.64.0.0/16"}, "must be a list of subnets"),
        ({"cluster_subnets": ["10.244.0.0/16/x"]}, "10.244.0.0/16/x"),
        ({"mtu": "9000"}, "must be a number from 576 to 65535"),
        ({"colour": "red"}, "unknown setting colour"),
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
