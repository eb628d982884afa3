# SPDX-License-Identifier: Apache-2.0
"""What routers and clients of an Egress have on their node."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.egress_nat import (
    chosen_router,
    render_egress,
    tunnel_name,
)
from ansible_collections.heddle.ovn.plugins.module_utils.types.egress_nat import TunnelRoute
from tests.pipeline import plan_of
from tests.unit.controllers.coil.test_egress import BASE, client, egress


@pytest.mark.parametrize(
    ("address", "name"),
    [("10.1.1.1", "fou4_0a010101"), ("fd02::101", "fou6_1a0395a1"), ("10.68.114.217", "fou4_0a4472d9")],
)
def test_tunnels_have_the_names_of_coil(address, name):
    assert tunnel_name(address) == name


@pytest.mark.parametrize(
    ("destination", "table"),
    [
        ("0.0.0.0/0", 118), ("203.0.113.0/24", 118), ("10.9.0.0/16", 117), ("172.16.0.0/12", 117),
        ("172.32.0.0/16", 118), ("192.168.1.0/24", 117), ("::/0", 118), ("2001:db8::/32", 118), ("fd01::/16", 117),
    ],
)  # fmt: skip
def test_destinations_within_private_ranges_have_a_table_of_their_own(destination, table):
    plan = plan_of(BASE + egress(destinations=[destination]) + client())
    one = next(one for one in render_egress(plan, "node1") if one.namespace == "red_web")
    assert one.routes == (TunnelRoute(table, destination, one.tunnels[0].name),)
    assert one.families == ((6,) if ":" in destination else (4,))


def test_rules_of_a_client():
    plan = plan_of(BASE + egress() + client())
    one = next(one for one in render_egress(plan, "node1") if one.namespace == "red_web")
    # The way of the tunnels' own packets, also where a router has a public address, or a destination contains it.
    ends = [f"{end}/{32 if '.' in end else 128}" for tunnel in one.tunnels for end in (tunnel.remote, *tunnel.routers)]
    assert len(ends) == 4
    assert [(rule.family, rule.priority, rule.table, rule.to) for rule in one.rules] == [
        (4, 1800, 254, "169.254.0.0/16"), (4, 1900, 117, ""), (4, 2000, 254, "10.0.0.0/8"),
        (4, 2001, 254, "172.16.0.0/12"), (4, 2002, 254, "192.168.0.0/16"), (4, 2100, 118, ""),
        (6, 1800, 254, "fe80::/10"), (6, 1900, 117, ""), (6, 2000, 254, "fc00::/7"), (6, 2100, 118, ""),
        *((4 if "." in end else 6, 1850, 254, end) for end in ends),
    ]  # fmt: skip


def test_each_node_has_its_own_only():
    plan = plan_of(BASE + egress(replicas=2) + client(node="node2"))
    assert [one.namespace for one in render_egress(plan, "node1")] == ["internet_nat-0"]
    assert [one.namespace for one in render_egress(plan, "node2")] == ["internet_nat-1", "red_web"]
    assert render_egress(plan, "node3") == []
    assert render_egress(plan_of(BASE), "node1") == []


def test_router_has_a_tunnel_to_each_client():
    plan = plan_of(BASE + egress() + client() + client("web2", "node2"))
    router = render_egress(plan, "node1")[0]
    addresses = [plan["egress"]["workloads"][f"red/{name}"]["addresses"] for name in ("web", "web2")]
    assert sorted(one.remote for one in router.tunnels) == sorted(address for one in addresses for address in one)
    assert {one.to.partition("/")[0] for one in router.routes} == {one.remote for one in router.tunnels}
    assert {(rule.iif, rule.priority, rule.table) for rule in router.rules} == {("eth0", 2000, 118)}
    assert router.forwards


def test_routers_are_chosen_evenly_and_only_clients_of_a_lost_one_change():
    routers, clients = [f"10.1.0.{number}" for number in range(4)], [f"10.2.{number}.1" for number in range(200)]
    before = {one: chosen_router(one, routers) for one in clients}
    assert all(30 <= list(before.values()).count(router) <= 70 for router in routers)
    after = {one: chosen_router(one, routers[:3]) for one in clients}
    assert all(after[one] == before[one] for one in clients if before[one] != routers[3])
