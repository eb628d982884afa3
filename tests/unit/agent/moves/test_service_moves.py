# SPDX-License-Identifier: Apache-2.0
"""Moves of EgressServices: who sends with the address of the load balancer after each step, and by whom others leave.

The former host does not prepare, since the endpoints of a Service may go with its address.
"""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves import steps
from ansible_collections.heddle.ovn.plugins.module_utils.plan.address_holders import moved_addresses
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.changed_networks import changed_networks
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.handover import prepared_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import NodeNetwork
from ansible_collections.heddle.ovn.plugins.module_utils.render.egress.move_notices import CLAIMING, Notice
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.egress_flows import render_egress_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.egress_service_rules import (
    render_egress_service_rules,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import layer2, layer3, namespace, plan_of, with_gateways
from tests.unit.agent.moves.moving_hosts import STEPS, Hosts
from tests.unit.controllers.test_egress_services import POOL, egress_service, on, service, web

HOSTS = ("node1", "node2", "node3")
LEGACY = {"layer2_topology": "gateway-router"}
NETWORKS = {
    "Layer2": (layer2("red", "net", "10.1.0.0/24", "fd00:10::/64"), None),
    "Layer2 before the transit router": (layer2("red", "net", "10.1.0.0/24", "fd00:10::/64"), LEGACY),
    "Layer3": (layer3("red", "net", "10.1.0.0/16", 24), None),
    "default": ("", None),
}


def by(node: str, network: str, table: str = "") -> dict:
    """A plan with an EgressService that leaves by a host, with an endpoint on each host."""
    text, settings = NETWORKS[network]
    text = POOL + namespace("red", primary=network != "default") + text
    text += "".join(web("red", f"on-{name}", name) for name in HOSTS) + service("red")
    text += egress_service("red", nodeSelector=on(node), **({"network": table} if table else {}))
    return plan_of(text, hosts=with_gateways("shared"), settings=settings)


def entry_of(plan: dict) -> dict:
    [entries] = plan["egress_services"].values()
    return entries["red/web"]


def takes(plan: dict, node: str) -> int:
    """How many addresses of endpoints a host marks, or leads to its kernel, which translates; of both families."""
    policies = [row.columns for row in render_northbound(plan, node) if row.table == "Logical_Router_Policy"]
    mark = entry_of(plan).get("mark")
    if mark:
        return len({one["match"].split()[2] for one in policies if one.get("options", {}).get("pkt_mark") == str(mark)})
    view = NodeNetwork(plan, "default", node, [])
    maps = render_egress_service_rules(view)[2]
    translated = {element.split(" : ")[0] for one in maps for element in one.elements}
    led = {
        one["match"].split()[2]
        for one in policies
        if one["priority"] == 101 and one["nexthops"] & {*view.management_addresses()}
    }
    assert led <= translated
    return len(led)


def sends(plan: dict, node: str) -> bool:
    """Whether the provider bridge lets packets leave with the addresses, of both families or none."""
    entry, flows = entry_of(plan), render_bridge_flows(plan, node)
    found = []
    for address in entry["addresses"]:
        if "mark" in entry:
            marked = [flow for flow in flows if f"pkt_mark={entry['mark']:#x}" in flow.match and version(flow, address)]
            first = max(marked, key=lambda flow: flow.priority, default=None)
            found.append(bool(first) and address in first.actions)
        else:
            dropped = [flow for flow in flows if f"in_port=LOCAL,{version_of(address)},{source(address)}" in flow.match]
            assert {flow.actions for flow in dropped} <= {"drop"}
            found.append(takes(plan, node) > 0 and not dropped)
    assert len(set(found)) == 1
    return found[0]


def version_of(address: str) -> str:
    return "ipv6" if ":" in address else "ip"


def source(address: str) -> str:
    return f"{'ipv6_src' if ':' in address else 'nw_src'}={address}"


def version(flow, address: str) -> bool:
    return ("ipv6" in flow.match) == (":" in address)


def leads_to(plan: dict, node: str) -> set[str]:
    """The next hops of the endpoint on a host."""
    own = {
        address.split("/")[0]
        for interface in plan["workloads"][f"red/on-{node}"]["interfaces"]
        for address in interface["addresses"]
    }
    return {
        hop
        for row in render_northbound(plan, node)
        if row.table == "Logical_Router_Policy"
        and row.columns["priority"] == 101
        and row.columns["match"].split()[2] in own
        for hop in row.columns["nexthops"]
    }


@pytest.mark.parametrize("network", NETWORKS)
def test_each_step(monkeypatch, tmp_path, network):
    """Nothing leaves by two hosts, and where packets of endpoints may arrive, nothing leaves with another address."""
    before, after = by("node3", network), by("node2", network)
    moved = moved_addresses(before, after)
    assert moved == dict.fromkeys(entry_of(after)["addresses"], "node3")
    hosts = Hosts(monkeypatch, tmp_path, before)

    def state() -> list[tuple[bool, bool]]:
        """Whether each host sends with the address, and takes packets of endpoints elsewhere for it."""
        plans = {node: hosts.stored(node) for node in HOSTS}
        return [(sends(plan, node), takes(plan, node) > 1) for node, plan in plans.items()]

    former, withheld, none = (True, True), (False, True), (False, False)
    way = {node: leads_to(before, node) for node in HOSTS}
    assert state() == [none, none, former]
    for node in ("node1", "node2"):
        assert hosts.take(STEPS[0], node, after, moved)
        assert leads_to(hosts.stored(node), node) == way[node]
    assert hosts.take(STEPS[0], "node3", after, moved) == []
    assert state() == [none, withheld, former]
    waiting = {node: hosts.stored(node) for node in HOSTS}
    hosts.ready = {Notice(CLAIMING, "node2")}
    for node in HOSTS:
        assert hosts.take(STEPS[1], node, after, moved) == (["rows", "release"] if node == "node3" else [])
    # The former host leads its own endpoints to the new one.
    assert leads_to(hosts.stored("node3"), "node3") == leads_to(after, "node3") != way["node3"]
    assert state() == [none, withheld, withheld]
    assert hosts.take(STEPS[2], "node2", after, moved) == ["claim", "rows", "wait"]
    assert state() == [none, former, withheld]
    assert hosts.take(STEPS[2], "node1", after, moved) == ["rows", "wait"]
    # The rows can be written alone, since all others are as before.
    [name] = after["egress_services"]
    for node in HOSTS:
        stored = hosts.stored(node)
        assert changed_networks(waiting[node], stored, node) == {name}
        others = [
            [row for row in render_northbound(plan, node) if row.network != name] for plan in (waiting[node], stored)
        ]
        assert others[0] == others[1]
    assert hosts.take(STEPS[2], "node3", after, moved)
    assert state() == [none, former, withheld]
    for node in HOSTS:
        assert leads_to(hosts.stored(node), node) == leads_to(after, node) != way[node]
        hosts.apply(node, after)
        assert hosts.stored(node) == after
    assert state() == [none, former, none]


@pytest.mark.parametrize("network", NETWORKS)
def test_flows_that_a_step_writes_are_among_those_of_the_bridge(network):
    before, after = by("node3", network), by("node2", network)
    moved = moved_addresses(before, after)
    waiting = prepared_plan(after, "node2", moved)
    written = render_egress_flows(waiting, "node2")
    assert any(flow.actions == "drop" for flow in written)
    assert set(written) <= set(render_bridge_flows(waiting, "node2"))
    # Only what drops is removed when the address is there, and all else of the bridge is as it will be.
    gone = set(render_bridge_flows(waiting, "node2")) - set(render_bridge_flows(after, "node2"))
    assert gone
    assert {flow.actions for flow in gone} == {"drop"}
    assert gone <= set(written)
    assert set(render_bridge_flows(after, "node2")) <= set(render_bridge_flows(waiting, "node2"))


def test_a_routing_table_of_its_own_is_not_prepared_for(monkeypatch, tmp_path):
    """The kernel may send by another interface than the provider bridge, whose flows would not drop that."""
    before, after = by("node3", "default", "partners"), by("node2", "default", "partners")
    moved = moved_addresses(before, after)
    hosts = Hosts(monkeypatch, tmp_path, before)
    assert [hosts.take(STEPS[0], node, after, moved) for node in HOSTS] == [[]] * 3
    assert hosts.take(STEPS[1], "node3", after, moved) == ["topology", "gateway"]
    assert "egress_services" not in hosts.stored("node3")
    assert hosts.take(STEPS[2], "node2", after, moved) == ["topology", "gateway", "workloads"]


def test_without_its_new_host_nothing_leaves_with_another_address(monkeypatch, tmp_path):
    """A former host whose network the new host does not have yet drops what its endpoints send."""
    before, after = by("node3", "default"), by("node2", "default")
    before["nodes"]["node2"]["gateway"] = None
    hosts = Hosts(monkeypatch, tmp_path, before)
    moved = moved_addresses(before, after)
    hosts.take(steps.release_addresses, "node3", after, moved)
    left = hosts.stored("node3")
    assert not sends(left, "node3")
    assert takes(left, "node3") == 6


def test_a_slow_host_takes_in_the_notices_that_have_arrived(monkeypatch, tmp_path):
    before, after = by("node3", "default"), by("node2", "default")
    moved = moved_addresses(before, after)
    hosts = Hosts(monkeypatch, tmp_path, before)
    for node in HOSTS:
        hosts.take(STEPS[0], node, after, moved)
    hosts.ready = {Notice(CLAIMING, "node2")}
    clock = itertools.count(0, 60)
    monkeypatch.setattr(steps.time, "monotonic", lambda: next(clock))
    assert hosts.take(STEPS[1], "node3", after, moved) == ["rows", "release"]
