# SPDX-License-Identifier: Apache-2.0
"""A rehearsal finds what fails on one host only, whatever differs from the plan before."""

from __future__ import annotations

import re

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import DEFAULT_NETWORK
from ansible_collections.heddle.ovn.plugins.module_utils.operations import admission_service
from ansible_collections.heddle.ovn.plugins.module_utils.render import northbound, rehearsal
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway import bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.rehearsal import unrenderable
from tests.pipeline import (
    labelled,
    layer2,
    namespace,
    nodes,
    plan_of,
    stored,
    upgrade_stage,
    with_gateways,
    workload,
)

HOSTS = labelled(with_gateways("shared", nodes(*(f"node{number}" for number in range(1, 9)))))
NETWORK = namespace("t") + layer2("t", "net", "10.0.0.0/16")


def everywhere(name: str) -> str:
    """Return a workload on each host."""
    return "".join(workload(name, f"w-{host}", host) for host in HOSTS)


TENANT = NETWORK + everywhere("t")
# Manifests, the primary network of their workloads, and the namespace of these.
CASES = {
    "the default network": (namespace("plain", primary=False) + everywhere("plain"), "default", "plain"),
    "another network": (TENANT, "t_net", "t"),
}
EGRESS_IP = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: e}\n"
    "spec: {egressIPs: [192.0.2.200], namespaceSelector: {}}\n"
)
FIREWALL = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata: {name: default, namespace: t}\n"
    "spec: {egress: [{type: Deny, to: {cidrSelector: 198.51.100.0/24}}]}\n"
)
POLICY = (
    "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: t}\n"
    "spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}\n"
)


@pytest.fixture(name="fail")
def _fail(monkeypatch):
    """Make a renderer of a network's rows fail where a condition is true of the view and its rows."""

    def fail(name: str, condition) -> None:
        good = getattr(northbound, name)

        def render(view):
            rows = good(view)
            if condition(view, rows):
                raise ValueError("no such thing")
            return rows

        monkeypatch.setattr(northbound, name, render)

    return fail


def found(before: dict, after: dict) -> dict[str, str]:
    return unrenderable(after, admission_service._to_rehearse(before, after))


def holder_of(plan: dict) -> str:
    return plan["egress_ips"]["e"]["addresses"][0]["node"]


def far_from(node: str) -> str:
    """Return a host that is neither the next nor the one before."""
    names = [*HOSTS]
    return names[(names.index(node) + 4) % len(names)]


def leads_out(plan: dict, key: str, network: str):
    """Return whether rows of a host by which packets of others leave are those of a workload on that network."""
    address = next(
        one["addresses"][0].partition("/")[0] for one in plan["workloads"][key]["interfaces"]
        if one["network"] == network
    )  # fmt: skip
    holder = holder_of(plan)
    return lambda view, rows: (view.name, view.node) == (network, holder) and any(address in row.key for row in rows)


@pytest.mark.parametrize(("text", "network", "space"), CASES.values(), ids=CASES)
def test_a_workload_that_is_new_fails_where_its_packets_leave(fail, text, network, space):
    first = stored(text + EGRESS_IP, hosts=HOSTS)
    before = plan_of(text + EGRESS_IP, first, hosts=HOSTS)
    more = workload(space, "more", far_from(holder_of(before)))
    after = plan_of(text + EGRESS_IP + more, first, hosts=HOSTS)
    assert holder_of(after) == holder_of(before)
    fail("render_egress_ips", leads_out(after, f"{space}/more", network))
    assert [*found(before, after)] == [network]


@pytest.mark.parametrize(("text", "network", "space"), CASES.values(), ids=CASES)
def test_an_egress_ip_that_is_new_fails_for_a_workload_elsewhere(fail, text, network, space):
    first = stored(text, hosts=HOSTS)
    before, after = (plan_of(one, first, hosts=HOSTS) for one in (text, text + EGRESS_IP))
    fail("render_egress_ips", leads_out(after, f"{space}/w-{far_from(holder_of(after))}", network))
    assert [*found(before, after)] == [network]


def test_another_address_of_an_egress_ip_fails(fail):
    first = stored(TENANT + EGRESS_IP, hosts=HOSTS)
    other = EGRESS_IP.replace("192.0.2.200", "192.0.2.201")
    before, after = (plan_of(TENANT + text, first, hosts=HOSTS) for text in (EGRESS_IP, other))
    fail("render_egress_ips", lambda view, rows: not view.is_default and rows)
    assert [*found(before, after)] == ["t_net"]


def test_an_egress_firewall_fails(fail):
    first = stored(TENANT, hosts=HOSTS)
    before, after = (plan_of(text, first, hosts=HOSTS) for text in (TENANT, TENANT + FIREWALL))
    fail("render_egress_firewalls", lambda _view, rows: rows)
    assert [*found(before, after)] == ["t_net"]


def test_a_row_that_is_rendered_twice_is_found(monkeypatch):
    plan = plan_of(TENANT + FIREWALL, hosts=HOSTS)
    good = northbound.render_egress_firewalls
    monkeypatch.setattr(northbound, "render_egress_firewalls", lambda view: good(view) * 2)
    [(network, reason)] = unrenderable(plan).items()
    assert network == "t_net"
    assert re.search(r"Port_Group \S+ is rendered 2 times$", reason)


def test_a_host_fails_on_the_only_one_with_the_former_topology(monkeypatch):
    plan = upgrade_stage(NETWORK, *(name for name in HOSTS if name != "node1"), hosts=HOSTS)
    assert [node["layer2_topology_version"] for node in plan["nodes"].values()].count("1.0") == 1
    good = northbound._TOPOLOGIES["Layer2"]

    def render(view):
        assert view.node != "node1" or "node5" not in view.remotes
        return good(view)

    monkeypatch.setitem(northbound._TOPOLOGIES, "Layer2", render)
    assert [*unrenderable(plan)] == ["t_net"]


@pytest.mark.parametrize("broken", HOSTS)
def test_a_chassis_that_fails_on_other_hosts_is_found(monkeypatch, broken):
    good = rehearsal.render_southbound

    def render(*given):
        rows = good(*given)
        if any(row.key == HOSTS[broken]["chassis"] for row in rows):
            raise ValueError("no such thing")
        return rows

    monkeypatch.setattr(rehearsal, "render_southbound", render)
    assert "ValueError: no such thing" in unrenderable(plan_of(TENANT, hosts=HOSTS))[DEFAULT_NETWORK]


@pytest.mark.parametrize("broken", [*HOSTS, "node9"])
def test_a_host_for_whose_tunnels_flows_fail_is_found_where_other_hosts_have_other_families(monkeypatch, broken):
    """Also one without a chassis, and where the next host has no IPv6 on the provider network, or no such flows."""
    hosts = {**HOSTS, "node9": {"addresses": ["2001:db8:9::9"]}}
    for name, gateway in (
        ("node3", {**HOSTS["node3"]["gateway"], "addresses": HOSTS["node3"]["gateway"]["addresses"][:1]}),
        ("node5", {**HOSTS["node5"]["gateway"], "mode": "local"}),
        ("node7", None),
    ):
        hosts[name] = {**HOSTS[name], "gateway": gateway, "addresses": [f"2001:db8:9::{name[-1]}"]}
    plan = plan_of(TENANT, hosts=hosts)
    address = next(one for one in [*(plan["nodes"][broken].get("gateway") or {}).get("addresses", ()),
                                   *plan["nodes"][broken]["addresses"]] if ":" in one)  # fmt: skip
    target = f"ipv6_dst={address.partition('/')[0]}"
    good = bridge_flows._Rules.too_big

    def too_big(rules, *given):
        good(rules, *given)
        if any(flow.match.endswith(target) for flow in rules.flows):
            raise ValueError("no such thing")

    assert not unrenderable(plan)
    monkeypatch.setattr(bridge_flows._Rules, "too_big", too_big)
    assert "ValueError: no such thing" in unrenderable(plan)[DEFAULT_NETWORK]


def name_of(attachment: tuple[dict, dict]) -> str:
    return attachment[0]["name"]


def test_a_workload_of_a_host_without_a_chassis_fails_on_others(fail):
    plan = plan_of(TENANT + POLICY + workload("t", "early", "node9"), hosts={**HOSTS, "node9": {}})
    assert not plan["nodes"]["node9"]["chassis"]
    fail("render_policies", lambda view, _rows: view.name == "t_net" and "early" in map(name_of, view.workloads))
    assert [*unrenderable(plan)] == ["t_net"]


def test_networks_that_fail_together_only_are_found_one_by_one(monkeypatch):
    names = ("a", "b", "c", "d")
    text = "".join(namespace(name) + layer2(name, "net", "10.0.0.0/16") for name in names)
    plan = plan_of(text + "".join(workload(name, "w", "node1") for name in names), hosts=HOSTS)

    def render(plan, node):
        if node == "node1" and {"a_net", "c_net"} <= plan["networks"].keys():
            raise ValueError("no such thing")
        return []

    monkeypatch.setattr(rehearsal, "_OTHERS", (*rehearsal._OTHERS, render))
    assert unrenderable(plan) == {
        "c_net": "beside other networks it cannot be rendered on node node1: ValueError: no such thing"
    }


def test_a_workload_that_gets_an_egress_ip_is_rehearsed_where_it_is_and_where_it_leaves():
    chosen = EGRESS_IP.replace("namespaceSelector: {}", "namespaceSelector: {}, podSelector: {matchLabels: {out: ''}}")
    labels = workload("t", "more", "node4").replace("{name: more,", "{name: more, labels: {out: ''},")
    text = (
        TENANT + chosen + workload("t", "other", "node2").replace("{name: other,", "{name: other, labels: {out: ''},")
    )
    first = stored(text + workload("t", "more", "node4"), hosts=HOSTS)
    before, after = (plan_of(text + more, first, hosts=HOSTS) for more in (workload("t", "more", "node4"), labels))
    assert before["workloads"] == after["workloads"]
    places = admission_service._to_rehearse(before, after)
    assert places["t_net"] == {"node4"}
