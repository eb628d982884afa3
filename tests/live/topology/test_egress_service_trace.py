# SPDX-License-Identifier: Apache-2.0
"""Router policies of an EgressService, in ovn-northd: on the host, and on another node."""

from __future__ import annotations

import json

import pytest

from tests.live.topology.zone import Zone
from tests.pipeline import namespace, with_gateways, workload

EXTERNAL = {4: "198.51.100.7", 6: "2001:db8:99::7"}
POOL = {
    "apiVersion": "heddle.dev/v1", "kind": "LoadBalancerPool", "metadata": {"name": "provider"},
    "spec": {"subnets": ["192.0.2.100/32", "2001:db8::100/128"]},
}  # fmt: skip
SERVICE = {
    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "plain"},
    "spec": {"type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack", "selector": {"app": "web"},
             "ports": [{"port": 80}]},
}  # fmt: skip


def manifests(host: str) -> str:
    egress = {
        "apiVersion": "k8s.ovn.org/v1", "kind": "EgressService", "metadata": SERVICE["metadata"],
        "spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": host}}},
    }  # fmt: skip
    text = namespace("plain", primary=False)
    for name, node in (("near", "node1"), ("far", "node2")):
        text += workload("plain", name, node).replace("plain}", "plain, labels: {app: web}}")
    return text + "".join(f"---\n{json.dumps(one)}\n" for one in (POOL, SERVICE, egress))


@pytest.fixture
def zone(tools, northbound, southbound, northd):
    return Zone(tools, northbound, southbound, hosts=with_gateways("shared"))


def mac_of(zone: Zone, port: str) -> str:
    return next(row["mac"] for row in zone.northbound.rows("Logical_Router_Port", "name", "mac") if row["name"] == port)


@pytest.mark.parametrize("family", [4, 6])
def test_endpoints_of_all_nodes_go_to_the_management_port_of_the_host(zone, family):
    zone.apply(manifests("node1"))
    near, far = (zone.interface(f"plain/{name}", "default") for name in ("near", "far"))
    own = zone.trace("node1", near["port"], near, EXTERNAL[family], mac_of(zone, "rtos-node1"), family)
    assert 'output("k8s-node1")' in own
    # From the other node by the transit switch: the router has a route for them, too, or policies do not apply.
    router = mac_of(zone, "rtots-node1")
    other = zone.trace("transit_switch", "tstor-node2", far, EXTERNAL[family], router, family)
    assert 'output("k8s-node1")' in other
    beside = near["addresses"][0 if family == 4 else 1].partition("/")[0]
    inside = zone.trace("transit_switch", "tstor-node2", far, beside, router, family)
    assert f'output("{near["port"]}")' in inside


@pytest.mark.parametrize("family", [4, 6])
def test_endpoints_go_to_the_host_by_the_transit_switch(zone, family):
    zone.apply(manifests("node2"))
    near = zone.interface("plain/near", "default")
    seen = zone.trace("node1", near["port"], near, EXTERNAL[family], mac_of(zone, "rtos-node1"), family)
    assert 'output("tstor-node2")' in seen
