# SPDX-License-Identifier: Apache-2.0
"""What verify expects of node ports at the addresses of nodes beyond the provider network.

That packets agree with it is tested in tests/live/gateway/test_policy_sources.py and
tests/lab/test_node_port_nics.py.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import family
from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    external_flows,
    left_out,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_flow import (
    EXTERNAL_TO_ENTRANCE,
    HOST_TO_ENTRANCE,
    OTHER_HOST_TO_ENTRANCE,
    WORKLOAD_TO_ENTRANCE,
    ExternalFlow,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from tests.pipeline import THREE_NODES, layer2, layer3, namespace, nodes, plan_of, with_gateways, with_nics, workload

EXTERNAL = {"external": ["192.0.2.20", "2001:db8::20"]}
# On the network of the NICs, too.
NEAR = {"near": [*EXTERNAL["external"], "203.0.113.20", "2001:db8:3::20"]}
TOPOLOGIES = ("Layer2", "Layer3", "default network")
NIC4, NIC6 = "203.0.113.0/24", "2001:db8:3::/64"
LOCAL = ", externalTrafficPolicy: Local"


def tenant(name: str) -> str:
    networks = {
        "flat": layer2("flat", "net", "10.0.0.0/24", "fd00:10::/64"),
        "routed": layer3("routed", "net", "10.20.0.0/16", 24).replace(
            "}]}}", "}, {cidr: 'fd00:20::/48', hostSubnet: 64}]}}"
        ),
        "plain": "",
    }
    return namespace(name, primary=name != "plain") + networks[name]


def server(name: str, node: str) -> str:
    made = workload(name, f"on-{node}", node)
    return made.replace(f"namespace: {name}}}", f"namespace: {name}, labels: {{app: web}}}}")


def service(name: str, more: str = "", which: str = "web", ports: str = "{protocol: UDP, port: 7654}") -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {which}, namespace: {name}}}\n"
        f"spec: {{type: NodePort, selector: {{app: web}}, ipFamilyPolicy: RequireDualStack, ports: [{ports}]{more}}}\n"
    )


TENANTS = "".join(tenant(name) + server(name, "node1") + server(name, "node2") for name in ("flat", "routed", "plain"))


def all_of(more: str = "") -> str:
    return TENANTS + "".join(service(name, more) for name in ("flat", "routed", "plain"))


def made(text: str, hosts: dict | None = None, mode: str = "shared") -> dict:
    return plan_of(text, hosts=with_nics(with_gateways(mode)) if hosts is None else hosts)


def flows(plan: dict, external: dict = EXTERNAL, **selection) -> list[ExternalFlow]:
    return [one for one in external_flows(plan, external, None, Selection(**selection)) if one.way]


def of_kind(plan: dict, kind: str, external: dict = EXTERNAL, **selection) -> list[ExternalFlow]:
    return [one for one in flows(plan, external, **selection) if one.kind == kind]


def ways(found: list[ExternalFlow]) -> set[str]:
    return {one.way for one in found}


@pytest.mark.parametrize(("more", "policy"), [("", "Cluster"), (LOCAL, "Local")])
def test_each_class_has_one_question(more, policy):
    plan = made(all_of(more))
    found = flows(plan, NEAR)
    counts = Counter((one.kind, one.runner, one.through, one.family, one.way, one.refused) for one in found)
    assert set(counts.values()) == {1}
    # The tunnel endpoints of these hosts have IPv4.
    places = {4: {"tunnel endpoint", "management port", "other NIC"}, 6: {"management port", "other NIC"}}
    for node in ("node1", "node2"):
        for version, expected in places.items():
            own = [one for one in found if (one.kind, one.runner, one.family) == (HOST_TO_ENTRANCE, node, version)]
            assert ways(own) == {f"{place}, {topology}, {policy}" for place in expected for topology in TOPOLOGIES}


def test_all_questions_are_asked_on_demand():
    text = all_of() + service("flat", which="more")
    chosen, every = flows(made(text), NEAR), flows(made(text), NEAR, pairs=ALL)
    assert {(one.kind, one.target, one.source, one.address) for one in chosen} < {
        (one.kind, one.target, one.source, one.address) for one in every
    }
    # By two hosts each, at the tunnel endpoint and the NIC, in four networks' ports.
    asked = Counter(one.through for one in every if one.kind == OTHER_HOST_TO_ENTRANCE and one.family == 4)
    assert asked == dict.fromkeys(("node1", "node2", "node3"), 2 * 2 * 4)


def test_the_number_of_questions_does_not_grow_with_services():
    def count(services: int) -> Counter:
        text = TENANTS + "".join(service("flat", which=f"web{number}") for number in range(services))
        return Counter((one.kind, one.workload) for one in flows(made(text), NEAR))

    few, many = count(1), count(30)
    for kind in (HOST_TO_ENTRANCE, OTHER_HOST_TO_ENTRANCE, EXTERNAL_TO_ENTRANCE):
        assert few[kind, ""] == many[kind, ""] > 0
    # On two nodes: at the tunnel endpoint, the NIC and the management port in both families; the last one from the
    # default network only.
    assert sum(many[one] for one in many if one[1]) == 2 * (3 + 5)


def test_a_question_that_shows_which_endpoint_answers_comes_first():
    text = TENANTS + service("flat") + "".join(
        service("flat", which=f"other{number}", ports="{port: 80, targetPort: 8080}") for number in range(9)
    )  # fmt: skip
    for seed in range(5):
        found = flows(made(text), seed=str(seed))
        assert {one.named for one in found if not one.workload} == {True}


@pytest.mark.parametrize("mode", ["shared", "local"])
def test_another_host_follows_the_policy_local_and_is_seen(mode):
    plan = made(all_of(LOCAL) + workload("flat", "c", "node3"), mode=mode)
    own = {
        f"node{number}": {"tunnel endpoint on tunnels over IPv4": f"198.18.1.1{number}",
                          f"other NIC on {NIC4}": f"203.0.113.1{number}",
                          f"other NIC on {NIC6}": f"2001:db8:3::{10 + number:x}"}
        for number in (1, 2, 3)
    }  # fmt: skip
    found = of_kind(plan, OTHER_HOST_TO_ENTRANCE)
    for one in found:
        where = one.way.partition(",")[0]
        namespace_name = one.target.partition("/")[0]
        if one.through == "node3":
            # The default network and that of flat/c are there, without an endpoint.
            assert (one.reach, one.refused, one.sources) == (True, True, ())
            assert namespace_name in ("flat", "plain")
        else:
            assert (one.reach, one.responders) == (True, (f"{namespace_name}/on-{one.through}",))
            assert one.sources == (own[one.runner][where],)
        assert one.runner != one.through
    assert {one.through for one in found} == {"node1", "node2", "node3"}


def test_with_the_policy_cluster_every_endpoint_may_answer_whatever_it_sees():
    for one in of_kind(made(all_of()), OTHER_HOST_TO_ENTRANCE):
        name = one.target.partition("/")[0]
        assert (one.reach, one.responders, one.sources) == (True, (f"{name}/on-node1", f"{name}/on-node2"), ())


@pytest.mark.parametrize("more", ["", LOCAL])
def test_the_host_itself_and_its_workloads_reach_all_endpoints(more):
    plan = made(all_of(more))
    found = of_kind(plan, HOST_TO_ENTRANCE) + of_kind(plan, WORKLOAD_TO_ENTRANCE)
    for one in found:
        name = one.target.partition("/")[0]
        assert one.runner == one.through
        assert (one.reach, one.responders, one.sources) == (True, (f"{name}/on-node1", f"{name}/on-node2"), ())
    asked = {one.way for one in found if one.workload}
    for sender in ("from its network", "from another network"):
        assert any(f"other NIC {sender}" in way for way in asked)


def test_every_node_is_asked_by_one_other_which_the_seed_chooses():
    askers = set()
    for seed in range(20):
        found = of_kind(made(all_of()), OTHER_HOST_TO_ENTRANCE, seed=str(seed))
        pairs = {(one.through, one.runner, one.way.partition(",")[0]) for one in found}
        assert len({(through, way) for through, _runner, way in pairs}) == len(pairs)
        askers |= {(through, runner) for through, runner, _way in pairs}
    names = ("node1", "node2", "node3")
    assert askers == {(one, two) for one in names for two in names if one != two}


def test_a_host_computes_its_own_questions_alone():
    plan = made(all_of(LOCAL))
    for runner in (*plan["nodes"], *NEAR):
        alone = [one for one in external_flows(plan, NEAR, runner) if one.way]
        assert alone == [one for one in flows(plan, NEAR) if one.runner == runner] != []


def test_external_hosts_ask_on_networks_that_they_are_on():
    assert of_kind(made(all_of()), EXTERNAL_TO_ENTRANCE) == []
    found = of_kind(made(all_of(LOCAL)), EXTERNAL_TO_ENTRANCE, NEAR)
    assert {(one.address, one.sources) for one in found if one.through == "node1"} == {
        ("203.0.113.11", ("203.0.113.20",)), ("2001:db8:3::b", ("2001:db8:3::20",)),
    }  # fmt: skip
    # Other packets do not go there: nodes have a route of their own to the network.
    others = [one for one in external_flows(made(all_of(LOCAL)), NEAR) if not one.way]
    assert "192.0.2.20" in {one.address for one in others}
    assert not {one.address for one in others} & {"203.0.113.20", "2001:db8:3::20"}
    reason = "in which no external host of the inventory has an address"
    [line] = [one for one in left_out(made(all_of()), EXTERNAL) if reason in one]
    assert line == (
        f"external host to entrance: node ports are not tested at addresses on networks {reason}: 198.18.2.11 of "
        "node1, 198.18.1.11 of node1, 203.0.113.11 of node1, 2001:db8:3::b of node1, 198.18.2.12 of node2 and 7 more"
    )


def without_further(hosts: dict) -> dict:
    """Hosts with one address of each family, the tunnel endpoint's."""
    return {
        name: {**host, "encap_ips": [host["gateway"]["addresses"][0].partition("/")[0]], "addresses": []}
        for name, host in hosts.items()
    }


@pytest.mark.parametrize("other", [
    # The bridges of programs of each host, which have one address everywhere.
    {"virbr0": ["192.168.122.1/24"]},
    {"eth4": ["192.168.122.1/24"]},
])  # fmt: skip
def test_networks_that_do_not_connect_nodes_are_listed(other):
    hosts = without_further(with_gateways("shared"))
    for name, host in hosts.items():
        host["other_addresses"] = other if name != "node3" or "virbr0" in other else {}
    plan = made(all_of(), hosts)
    assert of_kind(plan, OTHER_HOST_TO_ENTRANCE) == []
    assert {one.address for one in of_kind(plan, HOST_TO_ENTRANCE)} >= {"192.168.122.1"}
    [line] = [one for one in left_out(plan, EXTERNAL) if one.startswith("other host to entrance: ")]
    assert "not known to connect their node with another one: 192.168.122.1 of node1, 192.168.122.1 of node2" in line


def test_a_network_that_overlaps_the_provider_network_is_not_asked():
    hosts = without_further(with_gateways("shared"))
    for number, host in enumerate(hosts.values()):
        host["other_addresses"] = {"eth4": [f"192.0.2.{100 + number}/25"]}
    assert of_kind(made(all_of(), hosts), OTHER_HOST_TO_ENTRANCE) == []


def test_tunnel_endpoints_on_a_nic_and_on_a_bridge_are_on_one_network():
    hosts = with_gateways("shared", nodes("node1", "node2"))
    hosts["node1"]["other_addresses"] = {"eth2": ["198.18.1.11/24"]}
    found = of_kind(made(all_of(LOCAL), hosts), OTHER_HOST_TO_ENTRANCE)
    assert {(one.runner, one.address, one.sources) for one in found} == {
        ("node1", "198.18.1.12", ("198.18.1.11",)), ("node2", "198.18.1.11", ("198.18.1.12",)),
    }  # fmt: skip


def test_a_network_with_the_same_subnet_as_a_nic_does_not_ask_there():
    """The packet stays in the network, where a workload may have the address."""
    text = all_of().replace("10.0.0.0/24", "203.0.113.0/24")
    asked = {
        (one.workload.partition("/")[0], one.address) for one in of_kind(made(text), WORKLOAD_TO_ENTRANCE, pairs=ALL)
    }
    assert not [name for name, address in asked if name == "flat" and address.startswith("203.0.113.")]
    assert [name for name, address in asked if name == "flat" and address.startswith("198.18.1.")]


def test_the_management_port_is_asked_from_the_default_network_only():
    """What other workloads send there leaves by their interface in the default network, where they are locked."""
    found = of_kind(made(all_of()), WORKLOAD_TO_ENTRANCE, pairs=ALL)
    places = {name: {one.way.partition(" from")[0] for one in found if one.workload.startswith(name)}
              for name in ("plain/", "flat/", "routed/")}  # fmt: skip
    assert places == {
        "plain/": {"tunnel endpoint", "management port", "other NIC"},
        "flat/": {"tunnel endpoint", "other NIC"}, "routed/": {"tunnel endpoint", "other NIC"},
    }  # fmt: skip


def test_nothing_is_asked_without_node_ports():
    text = TENANTS + service("flat").replace("NodePort", "ClusterIP")
    plan = made(text)
    assert flows(plan, NEAR) == []
    assert not [one for one in left_out(plan, EXTERNAL) if "node ports" in one]


def test_the_report_counts_the_classes():
    plan = made(all_of())
    report = evaluate(plan, {}, EXTERNAL, Selection())
    assert report["coverage"]["sorts"]["node port"] == {"covered": 0, "of": len(flows(plan))}
    assert {one["kind"] for one in report["north_south"]["flows"]} >= {OTHER_HOST_TO_ENTRANCE}


def test_policies_of_endpoints_see_the_other_host_with_the_policy_local():
    policy = (
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: flat}\n"
        "spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 203.0.113.12/32}}]}]}\n"
    )
    found = of_kind(made(TENANTS + service("flat", LOCAL) + policy), OTHER_HOST_TO_ENTRANCE, pairs=ALL)
    by_nic = {(one.runner, one.through): (one.reach, one.denied) for one in found if family(one.address) == 4
              and "other NIC" in one.way}  # fmt: skip
    assert by_nic["node2", "node1"] == (True, False)
    assert by_nic["node3", "node1"] == (False, True)


def test_hosts_without_the_provider_network_have_no_node_ports_and_ask_others():
    hosts = copy.deepcopy(with_nics(with_gateways("shared", THREE_NODES)))
    del hosts["node3"]["gateway"]
    found = of_kind(made(all_of(), hosts), OTHER_HOST_TO_ENTRANCE, pairs=ALL)
    assert {one.through for one in found} == {"node1", "node2"}
    assert {one.runner for one in found} == {"node1", "node2", "node3"}


def calls_for(hosts: int, services: int) -> int:
    """The function calls with which one host finds out what it asks, of hosts with a bridge network of their own."""
    text = TENANTS + "".join(service("flat", which=f"web-{number}") for number in range(services))
    plan = made(text)
    for number in range(hosts):
        more = copy.deepcopy(plan["nodes"]["node3"])
        more |= {"encap_ips": [f"172.20.0.{number + 1}"], "other_addresses": {"virbr0": [f"10.77.{number}.1/24"]}}
        plan["nodes"][f"host-{number}"] = more
    calls = Counter()
    sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
    try:
        external_flows(plan, EXTERNAL, "node1", Selection())
    finally:
        sys.setprofile(None)
    return calls["call"]


@pytest.mark.parametrize("few", [(40, 1), (1, 40)], ids=["hosts", "Services"])
def test_what_a_host_computes_grows_with_hosts_and_with_services(few):
    hosts, services = few
    many = (4 * hosts, services) if hosts > 1 else (hosts, 4 * services)
    calls_for(*many)
    assert calls_for(*many) < 5 * calls_for(*few)
