# SPDX-License-Identifier: Apache-2.0
"""Workloads locked on the default network (their primary one is another): they reach their host only."""

from __future__ import annotations

import pytest

from tests.live.topology.test_external import make_zone
from tests.pipeline import layer2, namespace, with_gateways, workload

MANIFESTS = "".join(
    namespace(name) + layer2(name, "net", "10.50.0.0/16", "fd50::/64") + workload(name, "a", "node1")
    for name in ("red", "blue")
)


@pytest.fixture(name="zone")
def _zone(tools, northbound, southbound, northd):
    return make_zone(tools, northbound, southbound, with_gateways("shared"))


def frame(zone, source: dict, target_mac: str, rest: str) -> str:
    """Trace a frame of a workload on the default network's switch."""
    flow = f'inport == "{source["port"]}" && eth.src == {source["mac"]} && eth.dst == {target_mac} && {rest}'
    return zone.tools.run("ovn-trace", f"--db={zone.southbound.remote}", "--minimal", "node1", flow)


def address(interface: dict, family: int) -> str:
    return next(one for one in interface["addresses"] if (":" in one) == (family == 6)).partition("/")[0]


def neighbours(operation: int, family: int, source: dict, spoken: str, asked: str) -> str:
    """An ARP request or reply (1, 2) about an address, or what stands for it in IPv6."""
    if family == 4:
        return f"arp.op == {operation} && arp.spa == {spoken} && arp.tpa == {asked} && arp.sha == {source['mac']}"
    link_layer, target = ("nd.sll", asked) if operation == 1 else ("nd.tll", spoken)
    kind = "nd_ns" if operation == 1 else "nd_na"
    common = f"ip6.src == {spoken} && ip6.dst == {asked} && ip.ttl == 255 && nd.target == {target}"
    return f"{kind} && {common} && {link_layer} == {source['mac']}"


@pytest.mark.parametrize("operation", [1, 2])
def test_locked_workloads_exchange_no_arp(zone, operation):
    """Neighbour discovery is not tested: northd allows it before any ACL (`build_acls`, 65532)."""
    zone.apply(MANIFESTS)
    family = 4
    red, blue = zone.interface("red/a", "default"), zone.interface("blue/a", "default")
    says = neighbours(operation, family, red, address(red, family), address(blue, family))
    trace = frame(zone, red, blue["mac"], says)
    assert "output(" not in trace, trace


@pytest.mark.parametrize("family", [4, 6])
def test_locked_workloads_resolve_their_host(zone, family):
    zone.apply(MANIFESTS)
    red = zone.interface("red/a", "default")
    host = {4: "10.244.0.2", 6: "fd00:10:244::2"}[family]
    trace = frame(zone, red, "ff:ff:ff:ff:ff:ff", neighbours(1, family, red, address(red, family), host))
    assert f'output("{red["port"]}")' in trace or 'output("k8s-node1")' in trace, trace
