# SPDX-License-Identifier: Apache-2.0
"""What is rendered for a host's own kernel is accepted there, is complete after one run, and does what it should."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import vrf_supported
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import reconcile_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.nftables.reconcile import reconcile_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import HostNetwork
from ansible_collections.heddle.ovn.plugins.module_utils.types.nftables_ruleset import Firewall
from tests.live.gateway.conftest import EGRESS_HOST
from tests.live.gateway.external_host import MANIFESTS
from tests.live.gateway.packets import UDP, Packet, decode
from tests.live.gateway.test_single_stack import manifests, settings_of
from tests.pipeline import plan_of, with_gateways

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

NAME = f"g{os.getpid()}-host"
OWNER = "test:gateway"


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def in_host_of(found: dict) -> Iterator[None]:
    """Be in a namespace that stands for node1 of a plan, with its bridge and management ports."""
    kernel.create_namespace(NAME, "")
    try:
        with kernel.in_netns(NAME):
            ip("link", "set", "lo", "up")
            names = ["breth1", *(link.name for link in render_host_network(found, "node1").links)]
            for name in names:
                ip("link", "add", name, "type", "veth", "peer", "name", f"far-{name[-5:]}")
                ip("link", "set", f"far-{name[-5:]}", "up")
            ip("link", "set", "breth1", "up")
            for address in found["nodes"]["node1"]["gateway"]["addresses"]:
                ip("address", "add", address, "dev", "breth1", *(["nodad"] if ":" in address else []))
            yield
    finally:
        kernel.remove_namespace(NAME)


@pytest.fixture(params=["shared", "local"])
def plan(request):
    """A plan for a namespace that stands for node1."""
    found = plan_of(MANIFESTS, hosts=with_gateways(request.param, vrf=vrf_supported()))
    with in_host_of(found):
        yield found


def runner_of(tools):
    """Return what runs a program of the toolbox as this user."""

    def run(argv, text=""):
        done = subprocess.run(tools.command(*argv), input=text, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise ProgramError(argv[0], done.stderr)
        return done.stdout

    return run


def test_host_network_is_applied_and_removed(plan):
    wanted = render_host_network(plan, "node1")
    assert wanted.routes
    assert reconcile_host_network(wanted, owner=OWNER, write=True).changed
    assert not reconcile_host_network(wanted, owner=OWNER, write=True).changed
    assert reconcile_host_network(HostNetwork(), owner=OWNER, write=True).changed
    assert not reconcile_host_network(HostNetwork(), owner=OWNER, write=False).changed


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", ["shared", "local"])
def test_a_host_of_one_address_family_accepts_network_and_rules(tools, mode, family):
    """With Services of all kinds, policies and EgressIPs."""
    hosts = with_gateways(mode, families=(family,), vrf=vrf_supported())
    hosts["node1"]["labels"] = EGRESS_HOST
    found = plan_of(manifests(family), hosts=hosts, settings=settings_of(family))
    network, firewall = render_host_network(found, "node1"), render_firewall(found, "node1")
    assert {6 if ":" in one.address else 4 for one in network.addresses} == {family}
    with in_host_of(found):
        assert reconcile_host_network(network, owner=OWNER, write=True).changed
        assert not reconcile_host_network(network, owner=OWNER, write=True).changed
        assert reconcile_firewall(firewall, write=True, run=runner_of(tools)).changed
        assert not reconcile_firewall(firewall, write=True, run=runner_of(tools)).changed


def test_a_process_of_the_host_does_not_reach_a_workload_over_the_default_network(tools, plan):
    run = runner_of(tools)
    reconcile_host_network(render_host_network(plan, "node1"), owner=OWNER, write=True)
    interfaces = {name: entry["interfaces"][0]["addresses"] for name, entry in plan["workloads"].items()}
    locked, plain = interfaces["flat/a"], interfaces["plain/a"]
    wanted = render_firewall(plan, "node1")
    for firewall, refused in ((wanted, True), (Firewall(), False)):
        assert reconcile_firewall(firewall, write=True, run=run).changed
        assert not reconcile_firewall(firewall, write=True, run=run).changed
        for address in locked:
            assert sends(address.partition("/")[0]) is not refused, address
        for address in plain:
            assert sends(address.partition("/")[0]), address


@pytest.mark.parametrize("family", [4, 6])
def test_services_are_not_reachable_from_the_provider_network(tools, plan, family):
    """A machine that routes the service subnets to a node would reach the services of the cluster."""

    run = runner_of(tools)
    reconcile_host_network(render_host_network(plan, "node1"), owner=OWNER, write=True)
    service, beyond = {4: ("10.96.0.10", "198.51.100.7"), 6: ("fd00:10:96::a", "2001:db8:99::7")}[family]
    ip("route", "add", beyond, "via", {4: "192.0.2.1", 6: "2001:db8::1"}[family], "dev", "breth1")
    ip("neighbour", "add", {4: "192.0.2.1", 6: "2001:db8::1"}[family], "lladdr", "0a:00:00:00:00:fe", "dev", "breth1")
    for firewall, expected in ((Firewall(), {service, beyond}), (render_firewall(plan, "node1"), {beyond})):
        reconcile_firewall(firewall, write=True, run=run)
        assert forwarded(service, beyond, family) == expected


def forwarded(first: str, last: str, family: int) -> set[str]:
    """Return which of two targets the kernel forwards to, of what comes in at the bridge from a neighbour there."""
    own = kernel.read_links(None)["breth1"]["mac"]
    source = {4: "192.0.2.77", 6: "2001:db8::77"}[family]
    found: set[str] = set()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire:
        wire.bind(("far-reth1", 0))
        wire.settimeout(20)
        for target in (first, last):
            wire.send(Packet("0a:00:00:00:00:77", own, source, target, UDP, 4000, 53).encode())
        # Packets of one flow direction are forwarded in order: when the last one is out, the first has been decided.
        while last not in found:
            packet = decode(wire.recv(2048))
            if isinstance(packet, Packet) and packet.source_mac == own and packet.target in (first, last):
                found.add(packet.target)
    return found


def sends(address: str) -> bool:
    """Whether the kernel lets a datagram out."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(b"heddle", (address, 9))
        except PermissionError:
            return False
        return True
