# SPDX-License-Identifier: Apache-2.0
"""An EgressIP on another NIC of a host, in the kernel: what workloads send leaves there with its address.

A namespace stands for node1, one for OVN behind the management port, with a workload of node1 and one of node2, and one
for the network of the other NIC.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import family, plain
from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.nics import held_addresses, nic_addresses
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import reconcile_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.nftables.reconcile import reconcile_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import HostNetwork
from ansible_collections.heddle.ovn.plugins.module_utils.types.nftables_ruleset import Firewall
from tests.pipeline import EVERYWHERE, labelled, namespace, plan_of, with_gateways, with_nics, workload

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

HOST, INSIDE, OUTSIDE = (f"h{os.getpid()}-{name}" for name in ("host", "inside", "outside"))
EGRESS = {4: "203.0.113.100", 6: "2001:db8:3::100"}
# On the network of the NIC, and beyond it without a gateway there.
NEAR = {4: "203.0.113.50", 6: "2001:db8:3::50"}
FAR = {4: "198.51.100.9", 6: "2001:db8:9::9"}
GATEWAY = {4: "10.244.0.1/24", 6: "fd00:10:244::1/64"}
MANAGEMENT = {4: "10.244.0.2", 6: "fd00:10:244::2"}
PORT, TIMEOUT = 7654, 120


def plan_for(mode: str, version: int, *, egress: bool = True) -> dict:
    hosts = labelled({"node1": with_nics(with_gateways(mode))["node1"]})
    hosts = {**with_nics(with_gateways(mode)), **hosts}
    text = namespace("plain", primary=False) + workload("plain", "near", "node1") + workload("plain", "far", "node2")
    if egress:
        text += "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: out}\n"
        text += f'spec: {{egressIPs: ["{EGRESS[version]}"], namespaceSelector: {{}}}}\n'
    return plan_of(text, hosts=hosts, settings=EVERYWHERE)


def sources(plan: dict, version: int) -> list[str]:
    return [
        plain(address)
        for one in plan["workloads"].values()
        for interface in one["interfaces"]
        for address in interface["addresses"]
        if family(address) == version
    ]


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cable(namespace: str, name: str, *addresses: str) -> None:
    """A link of the host whose other end is in a namespace, with addresses there."""
    ip("-n", HOST, "link", "add", name, "type", "veth", "peer", "name", "far", "netns", namespace)
    for where, link in ((HOST, name), (namespace, "far")):
        ip("-n", where, "link", "set", link, "up")
    for address in addresses:
        ip("-n", namespace, "address", "add", address, "dev", "far", *(["nodad"] if ":" in address else []))


@pytest.fixture
def namespaces():
    names = (HOST, INSIDE, OUTSIDE)
    try:
        for name in names:
            kernel.create_namespace(name, "")
        cable(INSIDE, "ovn-k8s-mp0", *GATEWAY.values())
        cable(OUTSIDE, "eth3", *(f"{NEAR[one]}/{24 if one == 4 else 64}" for one in (4, 6)))
        for address in FAR.values():
            ip("-n", OUTSIDE, "address", "add", address, "dev", "far", *(["nodad"] if ":" in address else []))
        ip("-n", HOST, "link", "add", "breth1", "type", "veth", "peer", "name", "breth1-far")
        ip("-n", HOST, "link", "set", "breth1-far", "up")
        ip("-n", HOST, "link", "set", "breth1", "up")
        ip("-n", HOST, "address", "add", "192.0.2.11/24", "dev", "breth1")
        ip("-n", HOST, "address", "add", "2001:db8::b/64", "dev", "breth1", "nodad")
        ip("-n", HOST, "address", "add", "203.0.113.11/24", "dev", "eth3")
        ip("-n", HOST, "address", "add", "2001:db8:3::b/64", "dev", "eth3", "nodad")
        for version, address in MANAGEMENT.items():
            # The way of OVN: what is not for the workloads goes to the management port.
            ip(f"-{version}", "-n", INSIDE, "route", "add", "default", "via", address, "dev", "far")
        yield
    finally:
        for name in names:
            with contextlib.suppress(OSError):
                kernel.remove_namespace(name)


def apply(plan: dict | None, run_nft, *, firewall: dict | None = None) -> bool:
    """Bring the host to a plan, and nftables to that of another one if given; return whether that changed anything."""
    with kernel.in_netns(HOST):
        network = render_host_network(plan, "node1") if plan else HostNetwork()
        table = render_firewall(firewall or plan, "node1", with_prober=False) if plan else Firewall()
        outcome = reconcile_host_network(network, owner="test:gateway", write=True)
        assert not outcome.refused
        return outcome.changed | reconcile_firewall(table, write=True, run=run_nft).changed


def routing(version: int) -> tuple[str, list[str]]:
    """Rules and routes of all tables, but for the kernel's own of links that it has just noticed."""
    routes = ip(f"-{version}", "-n", HOST, "route", "show", "table", "all").replace(" linkdown", "").splitlines()
    return ip(f"-{version}", "-n", HOST, "rule"), sorted(
        one for one in routes if "fe80:" not in one and "ff00:" not in one
    )


def opened(namespace: str, address: str, port: int = 0) -> socket.socket:
    with kernel.in_netns(namespace):
        found = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        found.bind((address, port))
        return found


def received(server: socket.socket, client: socket.socket, text: bytes, to: tuple) -> tuple:
    """Send until it is received, since a link that was just made loses frames; return whom it came from."""
    server.settimeout(0.5)
    for _attempt in attempts(TIMEOUT):
        client.sendto(text, to)
        with contextlib.suppress(TimeoutError):
            data, peer = server.recvfrom(100)
            assert data == text
            return peer
    raise AssertionError(f"{text} did not arrive")


def exchange(source: str, target: str) -> str:
    """Send a datagram, answer it, and return the address that the target saw."""
    with opened(OUTSIDE, target, PORT) as server, opened(INSIDE, source) as client:
        peer = received(server, client, b"question", (target, PORT))
        received(client, server, b"answer", peer)
        return peer[0]


@pytest.mark.parametrize("mode", ["shared", "local"])
@pytest.mark.parametrize("version", [4, 6])
def test_workloads_of_all_nodes_leave_by_the_nic_with_the_address(run_nft, namespaces, mode, version):
    plan, without = plan_for(mode, version), plan_for(mode, version, egress=False)
    assert apply(without, run_nft)
    untouched = routing(version)
    assert apply(plan, run_nft)
    assert not apply(plan, run_nft)
    with kernel.in_netns(HOST):
        # The EgressIP is no address of the host's own that a later run would report.
        assert nic_addresses(frozenset(["breth1"]))["eth3"] == ["203.0.113.11/24", "2001:db8:3::b/64"]
        assert held_addresses() == [EGRESS[version]]
    for source in sources(plan, version):
        ip("-n", INSIDE, "address", "add", source, "dev", "far", *(["nodad"] if version == 6 else []))
        for target in (NEAR, FAR):
            assert exchange(source, target[version]) == EGRESS[version]
        # Packets to nodes, in local gateway mode, take the main table; others do not.
        ways = [
            ip(f"-{version}", "-n", HOST, "route", "get", FAR[version], "from", source, "iif", "ovn-k8s-mp0", *mark)
            for mark in ([], ["mark", "1009"])
        ]
        assert all("dev eth3" in way for way in ways)
        rules = ip(f"-{version}", "-n", HOST, "rule")
        assert f"6000:\tfrom {source} lookup" in rules
        assert ("5999:\tfrom all fwmark 0x3f0 lookup main" in rules) == (mode == "local")
    assert apply(without, run_nft)
    assert routing(version) == untouched
    assert EGRESS[version] not in ip("-n", HOST, "address")


def test_answers_of_nodes_pass_a_strict_reverse_path_filter(run_nft, namespaces):
    """They arrive by the provider bridge, while the rule of the workload leads to the other NIC (RFC 3704)."""
    plan = plan_for("local", 4)
    node2 = "192.0.2.12"
    with kernel.in_netns(HOST), HostKernel() as inside:
        for device in ("all", "breth1", "eth3"):
            inside.write_sysctl(f"net/ipv4/conf/{device}/rp_filter", "1")
    ip("-n", HOST, "link", "set", "breth1-far", "netns", OUTSIDE)
    ip("-n", OUTSIDE, "link", "set", "breth1-far", "up")
    ip("-n", OUTSIDE, "address", "add", f"{node2}/24", "dev", "breth1-far")
    apply(plan, run_nft)
    with kernel.in_netns(HOST):
        # The mark that the cluster router sets.
        hook = "type filter hook prerouting priority raw;"
        rule = f'iifname "ovn-k8s-mp0" ip daddr {node2} meta mark set 1008'
        run_nft(["nft", "-f", "-"], f"table inet other {{ chain c {{ {hook}\n{rule}\n}}\n}}\n")
    # Workloads of other nodes reach nodes by their own one.
    source = next(one for one in sources(plan, 4) if one.startswith("10.244.0."))
    ip("-n", INSIDE, "address", "add", source, "dev", "far")
    assert exchange(source, FAR[4]) == EGRESS[4]
    assert exchange(source, node2) == "192.0.2.11"


@pytest.mark.parametrize("version", [4, 6])
def test_nothing_leaves_with_the_address_of_a_workload(run_nft, namespaces, version):
    """While rules lead to the NIC and the translation is not there, what OVN has marked is dropped."""
    plan, without = plan_for("local", version), plan_for("local", version, egress=False)
    source = sources(plan, version)[0]
    ip("-n", INSIDE, "address", "add", source, "dev", "far", *(["nodad"] if version == 6 else []))
    apply(plan, run_nft, firewall=without)
    with kernel.in_netns(HOST):
        hook = "type filter hook prerouting priority raw;"
        rule = 'iifname "ovn-k8s-mp0" counter meta mark set 1009'
        run_nft(["nft", "-f", "-"], f"table inet other {{ chain c {{ {hook}\n{rule}\n}}\n}}\n")
    with opened(OUTSIDE, NEAR[version], PORT) as server, opened(INSIDE, source) as client:
        arrive_at_the_host(client, b"early", version, run_nft)
        apply(plan, run_nft)
        # Nothing of what was sent before comes first.
        peer = received(server, client, b"late", (NEAR[version], PORT))
        assert peer[0] == EGRESS[version]
        # The address moves to another host; the kernel goes on translating what it has tracked.
        apply(plan, run_nft, firewall=without)
        arrive_at_the_host(client, b"moved", version, run_nft)
        apply(plan, run_nft)
        assert received(server, client, b"back", (NEAR[version], PORT)) == peer


def arrive_at_the_host(client: socket.socket, text: bytes, version: int, run_nft) -> None:
    """Send until some packets have arrived at the host."""
    before = arrived(run_nft)
    for _attempt in attempts(TIMEOUT):
        client.sendto(text, (NEAR[version], PORT))
        if arrived(run_nft) > before + 3:
            return
    raise AssertionError(f"{text} did not arrive")


def arrived(run_nft) -> int:
    with kernel.in_netns(HOST):
        return int(run_nft(["nft", "list", "table", "inet", "other"]).partition("counter packets")[2].split()[0])


def test_routes_by_the_nic_are_those_of_the_main_table(run_nft, namespaces):
    plan = plan_for("shared", 4)
    ip("-n", HOST, "route", "add", "198.51.100.0/24", "via", NEAR[4])
    ip("-n", HOST, "route", "add", "default", "via", "203.0.113.1", "dev", "eth3", "metric", "500")
    ip("-n", HOST, "route", "add", "default", "via", "192.0.2.1", "dev", "breth1")
    apply(plan, run_nft)
    table = next(
        line.partition("lookup ")[2].split()[0]
        for line in ip("-n", HOST, "rule").splitlines()
        if line.startswith("6000:")
    )
    found = ip("-n", HOST, "route", "show", "table", table).splitlines()
    assert any(line.startswith("default via 203.0.113.1 dev eth3") for line in found)
    assert any(line.startswith("198.51.100.0/24 via 203.0.113.50 dev eth3") for line in found)
    assert any(line.startswith("203.0.113.0/24 dev eth3") for line in found)
    assert not [line for line in found if "breth1" in line]
    assert not apply(plan, run_nft)
    ip("-n", HOST, "route", "del", "198.51.100.0/24")
    assert apply(plan, run_nft)
    assert "198.51.100.0/24" not in ip("-n", HOST, "route", "show", "table", table)
    apply(None, run_nft)
    assert "6000:" not in ip("-n", HOST, "rule")
