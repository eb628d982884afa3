# SPDX-License-Identifier: Apache-2.0
"""What must be reachable from and to workloads with an address of a pool, and through an Egress."""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import family, is_within
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.egress_nat import render_egress
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import HostPlans
from ansible_collections.heddle.ovn.plugins.module_utils.types.egress_nat import MAIN_TABLE
from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import expected
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    external_flows,
    left_out,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_flow import (
    POOL_FROM_HOST,
    POOL_FROM_ROUTER,
    POOL_TO_HOST,
    POOL_TO_ROUTER,
    THROUGH_EGRESS,
    TO_EXTERNAL,
    TO_OTHER_HOST,
    TO_OWN_HOST,
    ExternalFlow,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.fleet import FleetExpectations
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.pool_flows import through_egress
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.pools import (
    POOLS,
    with_pools,
    without_pools,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.external_evaluation import evaluated
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.listening import listeners, local_workloads
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import Expectations
from tests.pipeline import namespace, nodes, plan_of, stored, workload

HOSTS = {
    name: {
        **fields,
        "gateway": {
            "mode": "shared", "bridge": "br-ex", "uplink": "eth2", "mac": f"02:00:00:00:00:0{number}",
            "addresses": [f"198.18.2.{number}/24", f"fd00:2::{number}/64"], "next_hops": [], "vlan": None,
            "physical_networks": {}, "vrf": False,
        },
    }
    for number, (name, fields) in enumerate(nodes("node1", "node2", "node3").items(), start=1)
}  # fmt: skip
EXTERNAL = {"outside": ["198.18.2.20", "fd00:2::20"], "other": ["198.18.2.21"]}
ROUTERS = {"coil": {"routers": [{"address": "198.18.2.20", "nodes": ["node1", "node2"]}]}}
POOL = (
    "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: p}\n"
    "spec: {subnets: [{ipv4: 10.2.0.0/24, ipv6: 'fd02::/120'}]}\n"
    + namespace("routed", primary=False).rstrip()
    + "\n  annotations: {coil.cybozu.com/pool: p}\n"
)
TEXT = POOL + "".join(workload("routed", f"w{number}", f"node{number}") for number in (1, 2, 3))
PLAIN = namespace("plain", primary=False) + workload("plain", "ovn", "node1")
EGRESS = (
    "---\napiVersion: coil.cybozu.com/v2\nkind: Egress\nmetadata: {name: nat, namespace: plain}\n"
    "spec: {destinations: [198.18.0.0/15], template: {spec: {nodeSelector: {kubernetes.io/hostname: node3}}}}\n"
)
CLIENT = workload("plain", "client", "node1").replace(
    "name: client,", "name: client, annotations: {egress.coil.cybozu.com/plain: nat},"
)


def flows(plan: dict, runner: str | None = None) -> list:
    return external_flows(with_pools(plan), EXTERNAL, runner, Selection(ALL))


def test_plan_without_pools_is_as_it_was():
    plan = plan_of(PLAIN, hosts=HOSTS)
    assert with_pools(plan) is plan
    assert not [one for one in flows(plan) if "pool" in one.kind]


def test_added_network_is_taken_off_again():
    plan = plan_of(TEXT + PLAIN, hosts=HOSTS)
    assert without_pools(with_pools(plan)) == plan
    assert with_pools(with_pools(plan)) == with_pools(plan)


def test_workloads_of_pools_reach_each_other_and_nothing_on_networks():
    plan = with_pools(plan_of(TEXT + PLAIN, hosts=HOSTS))
    pairs = expected(plan, None, Selection(ALL))
    reach = {(one.source, one.target) for one in pairs if one.reach}
    assert ("routed/w1", "routed/w2") in reach
    assert ("routed/w2", "routed/w1") in reach
    apart = {(one.source, one.target) for one in pairs if not one.reach}
    assert {("routed/w1", "plain/ovn"), ("plain/ovn", "routed/w1")} <= apart
    assert not reach & apart
    # A router may lead from OVN's gateways to the blocks: whether they are reached is not known.
    routed = with_pools(plan_of(TEXT + PLAIN, hosts=HOSTS, settings=ROUTERS))
    found = {(one.source, one.target) for one in expected(routed, None, Selection(ALL))}
    assert ("routed/w1", "plain/ovn") in found
    assert ("plain/ovn", "routed/w1") not in found


def test_hosts_and_routers_see_the_address_of_the_workload():
    plan = plan_of(TEXT, hosts=HOSTS, settings=ROUTERS)
    own = plan["coil"]["workloads"]["routed/w1"]["addresses"]
    found = flows(plan)
    sent = [one for one in found if one.kind == POOL_TO_HOST and one.source == "routed/w1"]
    assert {(one.target, one.family) for one in sent} == {(n, v) for n in ("node1", "node2") for v in (4, 6)}
    assert {one.seen_as for one in sent} == set(own)
    kinds = Counter((one.kind, one.workload, one.family) for one in found)
    assert kinds[POOL_FROM_HOST, "routed/w1", 4] == kinds[POOL_FROM_HOST, "routed/w1", 6] == 2
    # The other external host may have no route; node3 has another router, by the settings, and IPv6 none.
    routers = {(one.workload, one.target, one.family) for one in found if one.kind == POOL_TO_ROUTER}
    assert routers == {("routed/w1", "outside", 4), ("routed/w2", "outside", 4)}
    assert {one.runner for one in found if one.kind == POOL_FROM_ROUTER} == {"outside"}
    lines = "\n".join(left_out(with_pools(plan), EXTERNAL))
    assert "address pools to other: " in lines
    assert "networks to address pools" in lines
    # NAT on the way would be a failure.
    one = next(flow for flow in sent if flow.family == 4)
    answer = {"answered_by": one.target, "answered_on": "", "asker": "198.18.2.1", "milliseconds": 1.0, "large": True}
    key = one.source, one.target, one.network, one.address
    (row,) = evaluated(with_pools(plan), [one], {key: answer}, {}, set(HOSTS))
    assert row["result"] == "failed"
    assert f"seen as 198.18.2.1 there, not as {own[0]}" in row["text"]


def test_each_runner_derives_what_it_sends():
    plan = plan_of(TEXT, hosts=HOSTS, settings=ROUTERS)
    parts = [one for runner in (*HOSTS, *EXTERNAL) for one in flows(plan, runner)]
    assert Counter(parts) == Counter(flows(plan))
    asked = Expectations.of(plan, "node1", EXTERNAL, Selection(ALL))
    assert {row.source for row in asked.rows} == {"routed/w1", "node1"}
    assert local_workloads(plan, "node1") == {"routed/w1": "routed_w1"}
    (one, two) = (one for one in listeners(plan, "node1") if one.workload == "routed/w1")
    assert one.network == two.network == POOLS


def test_a_client_is_seen_with_the_address_of_the_routers_host():
    plan = plan_of(PLAIN + EGRESS + CLIENT, hosts=HOSTS)
    found = flows(plan)
    sent = {one.address: one for one in found if one.kind == THROUGH_EGRESS}
    assert sent.keys() == {"198.18.2.20", "198.18.2.21"}
    assert all(one.sources == ("198.18.2.3",) and one.runner == "node1" for one in sent.values())
    direct = {one.address for one in found if one.kind == TO_EXTERNAL and one.source == "plain/client"}
    # It has destinations of one family only.
    assert direct == {"fd00:2::20"}


def test_a_private_address_is_reached_directly_unless_it_is_a_destination():
    everything = EGRESS.replace("198.18.0.0/15", "0.0.0.0/0")
    external = {"outside": ["192.168.3.4", "203.0.113.5"]}
    plan = with_pools(plan_of(PLAIN + everything + CLIENT, hosts=HOSTS))
    found = external_flows(plan, external, None, Selection(ALL))
    assert [one.address for one in found if one.kind == THROUGH_EGRESS] == ["203.0.113.5"]


@pytest.mark.parametrize(
    "destinations",
    [["10.0.0.0/7"], ["11.0.0.0/8", "10.0.0.0/7"], ["0.0.0.0/0"], ["10.0.0.0/8"], ["172.0.0.0/8", "fc00::/6"]],
)
def test_what_is_private_is_decided_as_for_the_routes_of_the_client(destinations):
    egress = EGRESS.replace("198.18.0.0/15", ", ".join(f"'{one}'" for one in destinations))
    plan = plan_of(PLAIN + egress + CLIENT, hosts=HOSTS)
    (client,) = (one for one in render_egress(plan, "node1") if one.namespace == "plain_client")
    for address in ("10.9.9.9", "11.9.9.9", "9.9.9.9", "172.16.1.1", "172.1.1.1", "192.168.1.1", "fe12::1", "fd12::1"):
        assert (through_egress(plan, "plain/client", address) is not None) == has_tunnel(client, address), address


def has_tunnel(client, address: str) -> bool:
    """Whether the rules and routes of a client lead an address into a tunnel."""
    for rule in sorted((one for one in client.rules if one.family == family(address)), key=lambda one: one.priority):
        if rule.fwmark or (rule.to and not is_within(address, [rule.to])):
            continue
        if rule.table == MAIN_TABLE:
            return False
        if any(one.table == rule.table and is_within(address, [one.to]) for one in client.routes):
            return True
    return False


def test_of_two_with_the_same_destination_the_first_one_has_it():
    second = EGRESS.replace("name: nat", "name: zzz")
    both = CLIENT.replace("plain: nat}", "plain: 'nat,zzz'}")
    plan = plan_of(PLAIN + EGRESS + second + both, stored(PLAIN + EGRESS + CLIENT, hosts=HOSTS), hosts=HOSTS)
    assert plan["egress"]["workloads"]["plain/client"]["egresses"] == ["plain/nat", "plain/zzz"]
    assert through_egress(plan, "plain/client", "198.18.2.20") == "plain/nat"


def test_a_router_on_a_pool_is_seen_with_its_own_address():
    client = workload("routed", "client", "node1").replace(
        "name: client,", "name: client, annotations: {egress.coil.cybozu.com/routed: nat},"
    )
    plan = plan_of(
        TEXT + EGRESS.replace("namespace: plain", "namespace: routed") + client, hosts=HOSTS, settings=ROUTERS
    )
    router = plan["coil"]["workloads"]["routed/nat-0"]["addresses"][0]
    found = [one for one in flows(plan) if one.kind == THROUGH_EGRESS]
    assert [(one.target, one.sources) for one in found] == [("outside", (router,))]


@pytest.mark.parametrize(("client", "routers"), [("plain", "routed"), ("routed", "plain")])
def test_nothing_is_expected_between_a_pool_and_the_network_of_ovn(client, routers):
    """A client that ran before it was refused."""
    text = TEXT + PLAIN + EGRESS.replace("namespace: plain", f"namespace: {routers}")
    annotated = workload(client, "client", "node1").replace(
        "name: client,", f"name: client, annotations: {{egress.coil.cybozu.com/{routers}: nat}},"
    )
    before = stored(text + workload(client, "client", "node1"), hosts=HOSTS, settings=ROUTERS)
    plan = plan_of(text + annotated, before, hosts=HOSTS, settings=ROUTERS)
    assert plan["egress"]["workloads"][f"{client}/client"]["egresses"] == [f"{routers}/nat"]
    assert not [one for one in flows(plan) if one.kind == THROUGH_EGRESS]


def test_a_client_of_a_pool_reaches_destinations_by_its_router_only():
    egress = EGRESS.replace("namespace: plain", "namespace: routed").replace("198.18.0.0/15", "0.0.0.0/0")
    client = workload("routed", "client", "node1").replace(
        "name: client,", "name: client, annotations: {egress.coil.cybozu.com/routed: nat},"
    )
    plan = plan_of(TEXT + PLAIN + egress + client, hosts=HOSTS, settings=ROUTERS)
    found = [one for one in flows(plan) if one.workload == "routed/client"]
    assert {(one.kind, one.target) for one in found if one.family == 4} == {(THROUGH_EGRESS, "outside")}
    # Hosts have private addresses of the other family.
    kinds = {(one.kind, one.source, one.target) for one in found if one.family == 6}
    to = {(POOL_TO_HOST, "routed/client", node) for node in ("node1", "node2")}
    assert kinds == to | {(POOL_FROM_HOST, node, "routed/client") for node in ("node1", "node2")}


def test_without_ovn_hosts_are_reached_by_their_own_addresses():
    plan = plan_of(TEXT, hosts=nodes("node1", "node2", "node3"), settings={"ovn": False})
    found = {(one.kind, one.source, one.target, one.address) for one in flows(plan) if one.workload == "routed/w1"}
    own = plan["coil"]["workloads"]["routed/w1"]["addresses"][0]
    hosts = ("node1", "198.18.2.11"), ("node2", "198.18.2.12")
    assert {(POOL_TO_HOST, "routed/w1", *host) for host in hosts} <= found
    assert {(POOL_FROM_HOST, name, "routed/w1", own) for name, _address in hosts} <= found
    answered = {(one.workload, one.address) for one in listeners(plan, "node1")}
    assert {("node1", "198.18.2.11"), ("routed/w1", own)} <= answered
    assert left_out(with_pools(plan), {}) == []


def test_expectations_of_the_fleet_are_those_of_each_host():
    plan, chosen = plan_of(TEXT + PLAIN + CLIENT + EGRESS, hosts=HOSTS, settings=ROUTERS), Selection()
    found = Expectations.of_hosts(FleetExpectations.of(plan, EXTERNAL, chosen))
    assert {row.kind for row in found["node1"].rows if isinstance(row, ExternalFlow)} >= {POOL_TO_HOST, THROUGH_EGRESS}
    assert found == {name: Expectations.of(plan, name, EXTERNAL, chosen) for name in (*plan["nodes"], *EXTERNAL)}


def test_hosts_in_a_destination_of_an_egress_are_not_asked_as_if_packets_left_directly():
    """By way of the router they are smaller, and have other addresses."""
    plan = plan_of(PLAIN + EGRESS + CLIENT, hosts=HOSTS)
    asked = {(one.source, one.address) for one in flows(plan) if one.kind in (TO_OWN_HOST, TO_OTHER_HOST)}
    direct = {("plain/ovn", one) for one in ("198.18.2.1", "198.18.2.2", "fd00:2::1", "fd00:2::2")}
    assert asked >= direct | {("plain/client", one) for one in ("fd00:2::1", "fd00:2::2")}
    assert not asked & {("plain/client", one) for one in ("198.18.2.1", "198.18.2.2")}


def test_hosts_with_pools_have_parts_of_one_plan():
    """What is expected is of a plan in which workloads of pools are among the others; hosts have another one."""
    plan = plan_of(TEXT, hosts=HOSTS, settings={**ROUTERS})
    digests = HostPlans(plan).digests
    hosts = {name: {"seen": {}, "received": [], "digest": digest, "problems": []} for name, digest in digests.items()}
    assert evaluate(plan, hosts)["problems"] == []
    hosts["node2"]["digest"] = "another"
    message = "hosts have parts of different plans (node2); run heddle.ovn.networks"
    assert evaluate(plan, hosts)["problems"] == [message]
