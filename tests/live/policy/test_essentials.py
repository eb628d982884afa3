# SPDX-License-Identifier: Apache-2.0
"""What an isolated workload needs before it can have any connection: addresses of its own and of its neighbours."""

from __future__ import annotations

import json

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import link_local_address
from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import layer2_switch
from tests.pipeline import layer2, namespace, workload

CLOSED = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "closed", "namespace": "red"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}
MANIFESTS = (
    namespace("red") + layer2("red", "net", "10.50.0.0/16", "fd50::/64")
    + workload("red", "vm", "node1").replace("spec: {", "spec: {kind: vm, ") + workload("red", "b", "node1")
    + f"---\n{json.dumps(CLOSED)}\n"
)  # fmt: skip


def trace(zone, source: dict, target_mac: str, rest: str) -> str:
    flow = f'inport == "{source["port"]}" && eth.src == {source["mac"]} && eth.dst == {target_mac} && {rest}'
    options = [f"--db={zone.southbound.remote}", *["--ct=new"] * 4, "--minimal"]
    return zone.tools.run("ovn-trace", *options, layer2_switch("red_net"), flow)


def test_lease_is_obtained(zone):
    vm = zone.interface("red/vm", "red_net")
    own = vm["addresses"][0].partition("/")[0]
    for source, server in (("0.0.0.0", "255.255.255.255"), (own, "169.254.1.1")):
        asked = f"ip4.src == {source} && ip4.dst == {server} && ip.ttl == 64 && udp.src == 68 && udp.dst == 67"
        seen = trace(zone, vm, "ff:ff:ff:ff:ff:ff", asked)
        assert "ip4.src = 169.254.1.1;" in seen, seen
        # ovn-controller writes the destination of the answer, so that ovn-trace has the first one only to the end.
        assert source == own or f'output("{vm["port"]}")' in seen, seen


def test_lease_of_ipv6_is_obtained(zone):
    vm = zone.interface("red/vm", "red_net")
    asked = f"ip6.src == {link_local_address(vm['mac'])} && ip6.dst == ff02::1:2 && ip.ttl == 1"
    seen = trace(zone, vm, "33:33:00:01:00:02", f"{asked} && udp.src == 546 && udp.dst == 547")
    assert f'output("{vm["port"]}")' in seen, seen


def test_only_requests_to_the_servers_of_ovn_pass(zone):
    vm, other = zone.interface("red/vm", "red_net"), zone.interface("red/b", "red_net")
    own, target = (one["addresses"][0].partition("/")[0] for one in (vm, other))
    packet = f"ip4.src == {own} && ip4.dst == {target} && ip.ttl == 64"
    assert "output" not in trace(zone, vm, other["mac"], f"{packet} && udp.src == 68 && udp.dst == 67")


def test_router_solicitation_arrives_at_the_router(zone):
    vm = zone.interface("red/vm", "red_net")
    asked = f"nd_rs && ip6.src == {link_local_address(vm['mac'])} && ip6.dst == ff02::2 && ip.ttl == 255"
    seen = trace(zone, vm, "33:33:00:00:00:02", asked)
    assert 'output("cr-stotr-' in seen, seen
