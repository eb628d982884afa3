# SPDX-License-Identifier: Apache-2.0
"""Clients and routers of an Egress, one of them on an address pool and the other on OVN's default network.

A bridge with the name of the management port stands for OVN's default network: in local gateway mode all that leaves
it, and all that the host sends to it, goes by that port. The host's rules are what packets depend on.
"""

from __future__ import annotations

import os

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.egress_nat import apply_egress
from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import family, nth_interface
from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import management_interface
from ansible_collections.heddle.ovn.plugins.module_utils.common.processes import subprocesses
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol import fou
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.routed_workloads import reconcile_routed_workloads
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.workload_links import reconcile_endpoints
from ansible_collections.heddle.ovn.plugins.module_utils.nftables.reconcile import reconcile_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.workloads import (
    render_routed_endpoints,
    render_routed_workloads,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.netns import render_endpoints
from ansible_collections.heddle.ovn.plugins.module_utils.types.routed_workloads import RoutedWorkloads
from tests.live.coil.hosts import OUTSIDE, exchange, fleet, host, is_lost, run
from tests.live.egress.manifests import CLIENT, INTERNET, TENANT, router, text
from tests.pipeline import namespace, nodes, stored, with_gateways

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
NODE, OWNER = host(1), f"kinds{os.getpid()}"
HOSTS = with_gateways("local", nodes("node1"))
FAR = {4: "9.9.9.9", 6: "2606:4700:4700::9999"}
PORT = management_interface(0)


class Scene:
    """A host with workloads of both kinds; `pooled` is the namespace whose workloads have addresses of the pool."""

    def __init__(self, pooled: str, tools, mark) -> None:
        # A client that runs already keeps its tunnels when the Egress comes; a new one waits.
        before, after = (self._text(pooled, **more) for more in ({"egress": False}, {}))
        self.plan = build_plan(stored(after, stored(before, hosts=HOSTS), hosts=HOSTS))
        self.pooled, self._mark = pooled, mark
        self._run = lambda argv, given="": subprocesses.run(tools.command(*argv), given)
        self.addresses = {
            f"{one['namespace']}_{one['name']}": {family(address): address for address in one["addresses"]}
            for one in self.plan["egress"]["workloads"].values()
        }
        assert {CLIENT, router()} == self.addresses.keys()

    @staticmethod
    def _text(pooled: str, **more) -> str:
        other = TENANT if pooled == INTERNET else INTERNET
        annotated = namespace(other, primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: pool1}\n"
        whole = text(**more)
        assert annotated in whole
        return whole.replace(annotated, namespace(other, primary=False))

    def bring(self) -> None:
        """Make the workloads, the port that leads to those on the default network, and the routes outside."""
        network = self.plan["networks"]["default"]
        with kernel.in_netns(NODE):
            on_default = render_endpoints(self.plan, "node1")
            endpoints = [*on_default, *render_routed_endpoints(self.plan, "node1", 1500)]
            reconcile_endpoints(endpoints, owner=OWNER, userspace=False, write=True)
            reconcile_routed_workloads(render_routed_workloads(self.plan, "node1"), write=True)
        run(NODE, "ip", "link", "add", PORT, "up", "type", "bridge")
        for endpoint in on_default:
            run(NODE, "ip", "link", "set", endpoint.links[0].host_name, "master", PORT, "up")
        for subnet in network["host_subnets"]["node1"]:
            run(NODE, "ip", "address", "add", nth_interface(subnet, 1), "dev", PORT)
        for version, far in FAR.items():
            prefix = 128 if version == 6 else 32
            run(OUTSIDE, "ip", "address", "add", f"{far}/{prefix}", "dev", "far")
            via = {4: "192.0.2.1", 6: "2001:db8::1"}[version]
            for subnet in (*network["subnets"], *self.plan["coil"]["subnets"]):
                if family(subnet) == version:
                    run(OUTSIDE, "ip", "route", "add", subnet, "via", via)

    def tunnels(self) -> None:
        """Make those of the client and the router."""
        with kernel.in_netns(NODE):
            apply_egress(self.plan, "node1", OWNER, write=True, run=self._run, mark_file=self._mark)

    def rules(self) -> None:
        """Load the table of the host."""
        with kernel.in_netns(NODE):
            reconcile_firewall(render_firewall(self.plan, "node1", with_prober=False), write=True, run=self._run)

    def remove(self) -> None:
        """Remove the workloads."""
        with kernel.in_netns(NODE):
            reconcile_endpoints([], owner=OWNER, userspace=False, write=True)
            reconcile_routed_workloads(RoutedWorkloads(), write=True)


@pytest.fixture(params=[TENANT, INTERNET], ids=["client on a pool", "router on a pool"])
def scene(request, tools, tmp_path):
    with fleet(1):
        run(OUTSIDE, "ip", "link", "add", "far", "up", "type", "bridge")
        made = Scene(request.param, tools, tmp_path / "mark")
        try:
            made.bring()
            yield made
        finally:
            made.remove()


@pytest.mark.parametrize("version", [4, 6])
def test_no_packet_from_a_pool_arrives_on_the_network_of_ovn(scene, version):
    """One direction of a tunnel's packets is such. To the host they are no answers, as it translates the other one."""
    there = {name: addresses[version] for name, addresses in scene.addresses.items()}
    on_pool, on_ovn = (CLIENT, router()) if scene.pooled == TENANT else (router(), CLIENT)
    assert exchange(on_pool, on_ovn, there[on_ovn]) == there[on_pool]
    scene.rules()
    assert is_lost(on_pool, on_ovn, there[on_ovn])


@pytest.mark.parametrize("version", [4, 6])
def test_nothing_passes_through_an_egress_between_both_kinds(scene, version):
    lacking = fou.lacking()
    if lacking:
        pytest.skip(f"this kernel lacks {', '.join(lacking)}")
    scene.tunnels()
    # But for the rules of the host it would.
    assert exchange(CLIENT, OUTSIDE, FAR[version]) == scene.addresses[router()][version]
    scene.rules()
    assert is_lost(CLIENT, OUTSIDE, FAR[version])
