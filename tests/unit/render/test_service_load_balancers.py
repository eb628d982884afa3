# SPDX-License-Identifier: Apache-2.0
"""Load balancers of Services that are reached from beyond their network."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.common.entrances import LOAD_BALANCER, entrances
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import NodeNetwork
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

ENDPOINTS = {4: ("10.0.0.200", "198.51.100.53"), 6: ("fd00:10::200", "2001:db8:99::53")}


def text_of(kind: str, policy: str, open_ports: set[tuple[str, int]], place: int = 0) -> str:
    """A Service of two ports; `open_ports` are those with an endpoint, by name and family."""
    external = f"type: NodePort, externalTrafficPolicy: {policy}, " if kind == "NodePort" else ""
    return (
        namespace("red")
        + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
        + workload("red", "a", "node1")
        + "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\n"
        + f"spec: {{{external}ipFamilyPolicy: RequireDualStack, "
        + "ports: [{name: a, port: 80}, {name: b, port: 81}]}\n"
        + "".join(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
            f"metadata: {{name: {name}{version}, namespace: red, labels: {{kubernetes.io/service-name: web}}}}\n"
            f"addressType: IPv{version}\nports: [{{name: {name}, port: 8080}}]\n"
            f"endpoints: [{{addresses: [{ENDPOINTS[version][place]!r}]}}]\n"
            for name, version in sorted(open_ports)
        )
    )


def balancers(text: str) -> dict[str, dict]:
    rows = render_northbound(plan_of(text, hosts=with_gateways("shared")), "node1")
    return {row.key: row.columns for row in rows if row.table == "Load_Balancer"}


ALL = frozenset(itertools.product("ab", (4, 6)))
SOME = [ALL, ALL - {("a", 4)}, {("a", 4), ("a", 6)}, {("a", 6), ("b", 6)}, frozenset()]


@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_addresses_stay_in_their_load_balancer_whatever_endpoints_there_are(policy):
    """northd drops what is sent to a node when one load balancer loses its address and another has it (OVN 25.03)."""
    first, *others = (
        {key: set(columns["vips"]) for key, columns in balancers(text_of("NodePort", policy, some)).items()}
        for some in SOME
    )
    assert first
    assert others == [first] * len(others)


@pytest.mark.parametrize(("policy", "place"), [("Cluster", 0), ("Local", 0), ("Cluster", 1)])
@pytest.mark.parametrize("some", SOME)
def test_what_a_gateway_router_refuses_keeps_its_source_and_what_it_forwards_does_not(some, policy, place):
    """The router's own answers had another source otherwise. A switch translates no sources."""
    of_router = {
        key: columns
        for key, columns in balancers(text_of("NodePort", policy, some, place)).items()
        if "_node_switch_" not in key and "_local_router_" not in key
    }
    assert len(of_router) >= 4
    for columns in of_router.values():
        assert len({bool(targets) for targets in columns["vips"].values()}) == 1
        keeps_source = columns["options"]["skip_snat"] == "true"
        assert keeps_source == (not any(columns["vips"].values()))


def test_a_service_within_its_network_has_one_load_balancer_for_all_ports_and_families():
    """No packets from beyond the network come to it."""
    [columns] = balancers(text_of("ClusterIP", "Cluster", {("a", 4)})).values()
    assert sum(bool(targets) for targets in columns["vips"].values()) == 1
    assert len(columns["vips"]) == 4


@pytest.mark.parametrize(("seconds", "written"), [(60, "60"), (65535, "65535"), (65536, "65535"), (86399, "65535")])
def test_affinity_is_no_longer_than_ovn_has_it(seconds, written):
    """Longer ones are clamped by northd, with a warning."""
    affinity = f"sessionAffinity: ClientIP, sessionAffinityConfig: {{clientIP: {{timeoutSeconds: {seconds}}}}}, ports"
    found = balancers(
        text_of("ClusterIP", "", ALL).replace("ports: [{name: a, port: 80}", f"{affinity}: [{{name: a, port: 80}}")
    )
    assert {columns["options"]["affinity_timeout"] for columns in found.values()} == {written}


def test_source_ranges_of_one_family_leave_the_other_one_open():
    """As kube-proxy, which has the ranges of each family on its own."""
    pool = (
        "---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {name: pool}\n"
        "spec: {subnets: [192.0.2.64/28, '2001:db8::40/124']}\n"
    )
    text = text_of("NodePort", "Cluster", ALL) + pool
    text = text.replace("type: NodePort", "type: LoadBalancer, loadBalancerSourceRanges: [203.0.113.0/24]")
    plan = plan_of(text, hosts=with_gateways("shared"))
    found = {one for one in entrances(NodeNetwork(plan, "red_net", "node1", [])) if one.kind == LOAD_BALANCER}
    assert {(one.version, one.sources) for one in found} == {(4, ("203.0.113.0/24",)), (6, ())}
