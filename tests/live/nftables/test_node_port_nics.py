# SPDX-License-Identifier: Apache-2.0
"""Node ports by another NIC of a host, in the kernel: what comes in is translated, and nothing else is forwarded.

A namespace stands for node1, one for the network of the other NIC, and one for a third network of the host. The test
itself is OVN behind the provider bridge and the management port.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import reconcile_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.nftables.reconcile import reconcile_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_host_network
from tests.live.gateway.packets import ICMP, ICMPV6, UDP, Packet, checksum, decode
from tests.pipeline import namespace as space
from tests.pipeline import plan_of, with_gateways, with_nics, workload

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

HOST, CLIENT, THIRD = (f"n{os.getpid()}-{name}" for name in ("host", "client", "third"))
NIC, OTHER, BRIDGE, MANAGEMENT = "eth3", "eth4", "breth1", "ovn-k8s-mp0"
OWN = {4: "203.0.113.11", 6: "2001:db8:3::b"}
CLIENTS = {4: "203.0.113.50", 6: "2001:db8:3::50"}
# Beyond a router on the network of the NIC, to which the host has a route.
FAR = {4: "198.51.100.9", 6: "2001:db8:9::9"}
THIRDS = {4: "198.18.9.9", 6: "2001:db8:4::9"}
# On the provider network.
OUTSIDE = {4: "192.0.2.77", 6: "2001:db8::77"}
OUTSIDE_MAC = "0a:00:00:00:00:77"
LOCAL_SERVICES = {4: "169.254.0.3", 6: "fd69::3"}
LENGTHS = {4: 24, 6: 64}
GATEWAY = {4: "10.244.0.1", 6: "fd00:10:244::1"}
NODE_PORT, PORT = 30053, 4000


def service(policy: str) -> str:
    return (
        space("plain", primary=False)
        + workload("plain", "a", "node1").replace("namespace: plain", "namespace: plain, labels: {app: web}")
        + "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: plain}\n"
        f"spec: {{type: NodePort, selector: {{app: web}}, ipFamilyPolicy: RequireDualStack, "
        f"externalTrafficPolicy: {policy}, ports: [{{protocol: UDP, port: 53, nodePort: {NODE_PORT}}}]}}\n"
    )


def plan_for(mode: str, policy: str) -> dict:
    return plan_of(service(policy), hosts=with_nics(with_gateways(mode)))


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def add_address(name: str, device: str, address: str) -> None:
    version = 6 if ":" in address else 4
    more = ["nodad"] if version == 6 else []
    ip("-n", name, "address", "add", f"{address}/{LENGTHS[version]}", "dev", device, *more)


@pytest.fixture
def host():
    """Namespaces and links as before Heddle: nothing is forwarded between NICs, and reverse paths are checked."""
    made = []
    try:
        for name in (HOST, CLIENT, THIRD):
            kernel.create_namespace(name, "")
            made.append(name)
        with kernel.in_netns(HOST):
            for one in ("all", "default"):
                Path(f"/proc/sys/net/ipv4/conf/{one}/rp_filter").write_text("1")
            Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
        for device, where in ((NIC, CLIENT), (OTHER, THIRD)):
            ip("-n", HOST, "link", "add", device, "type", "veth", "peer", "name", "far", "netns", where)
            ip("-n", where, "link", "set", "far", "up")
        for device in (BRIDGE, MANAGEMENT):
            ip("-n", HOST, "link", "add", device, "type", "veth", "peer", "name", f"far-{device[-3:]}")
            ip("-n", HOST, "link", "set", f"far-{device[-3:]}", "up")
        for device in ("lo", NIC, OTHER, BRIDGE, MANAGEMENT):
            ip("-n", HOST, "link", "set", device, "up")
        for version in (4, 6):
            add_address(HOST, NIC, OWN[version])
            add_address(CLIENT, "far", CLIENTS[version])
            add_address(CLIENT, "far", FAR[version])
            add_address(THIRD, "far", THIRDS[version])
            add_address(HOST, OTHER, {4: "198.18.9.1", 6: "2001:db8:4::1"}[version])
            add_address(HOST, BRIDGE, {4: "192.0.2.11", 6: "2001:db8::b"}[version])
            ip("-n", HOST, "neighbour", "add", OUTSIDE[version], "lladdr", OUTSIDE_MAC, "dev", BRIDGE)
            subnet = {4: "198.51.100.0/24", 6: "2001:db8:9::/64"}[version]
            ip(f"-{version}", "-n", HOST, "route", "add", subnet, "via", CLIENTS[version], "dev", NIC)
            ip(f"-{version}", "-n", CLIENT, "route", "add", "default", "via", OWN[version], "dev", "far")
            ip(f"-{version}", "-n", THIRD, "route", "add", "default", "dev", "far")
        yield
    finally:
        for name in made:
            with contextlib.suppress(OSError):
                kernel.remove_namespace(name)


def apply(plan: dict, run_nft, routing: tuple[str, ...] = ()) -> None:
    with kernel.in_netns(HOST):
        table = render_firewall(plan, "node1", with_prober=False, routing=routing)
        assert reconcile_firewall(table, write=True, run=run_nft).changed
        assert not reconcile_host_network(render_host_network(plan, "node1"), owner="test:gateway", write=True).refused
        assert not reconcile_firewall(table, write=True, run=run_nft).changed


def opened(name: str, address: str, port: int = 0) -> socket.socket:
    with kernel.in_netns(name):
        found = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        found.bind((address, port))
        return found


class Wire:
    """The far end of an interface of the host."""

    def __init__(self, device: str) -> None:
        with kernel.in_netns(HOST):
            self.mac = kernel.read_links(None)[device]["mac"]
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self._socket.bind((f"far-{device[-3:]}", 0))
        self._socket.settimeout(0.5)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_error) -> None:
        self._socket.close()

    def send(self, packet: Packet) -> None:
        self.send_frame(packet.encode())

    def send_frame(self, frame: bytes) -> None:
        self._socket.send(frame)

    def packet(self, *payloads: bytes) -> Packet | None:
        """Return the next packet with one of these payloads that the host sent; None when nothing comes."""
        return self._next(lambda found: found.payload in payloads)

    def error(self, protocol: int, kind: int) -> Packet | None:
        """Return the next ICMP message of a type that the host sent; None when nothing comes."""
        return self._next(lambda found: (found.protocol, found.kind) == (protocol, kind))

    def _next(self, is_wanted) -> Packet | None:
        with contextlib.suppress(TimeoutError):
            while True:
                found = decode(self._socket.recv(2048))
                if isinstance(found, Packet) and found.source_mac == self.mac and is_wanted(found):
                    return found
        return None


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("client", ["near", "far"])
@pytest.mark.parametrize(("mode", "policy"), [(a, b) for a in ("shared", "local") for b in ("Cluster", "Local")])
def test_a_client_reaches_a_node_port_and_gets_the_answer_by_the_nic(host, run_nft, version, client, mode, policy):
    plan = plan_for(mode, policy)
    apply(plan, run_nft)
    source = {"near": CLIENTS, "far": FAR}[client][version]
    cluster_ip = plan["services"]["default"]["plain/web"]["addresses"][version == 6]
    wanted = (cluster_ip, 53) if policy == "Cluster" else (LOCAL_SERVICES[version], NODE_PORT)
    device = MANAGEMENT if (mode, policy) == ("local", "Local") else BRIDGE
    know_gateway(version)
    with Wire(device) as wire, opened(CLIENT, source, PORT) as asking:
        asking.settimeout(20)
        found = asked(asking, wire, version)
        # The provider bridge translates the source with the policy Cluster.
        assert (found.source, found.source_port, found.target, found.target_port) == (source, PORT, *wanted)
        wire.send(replace_payload(found))
        data, peer = asking.recvfrom(100)
        assert (data, peer[:2]) == (b"answer", (OWN[version], NODE_PORT))


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_path_mtu_discovery_follows_the_mark_of_the_network(host, run_nft, version, policy):
    """As to the VRF of a user-defined network: here a rule of the test leads what has the mark to another device."""
    plan = plan_for("shared", policy)
    apply(plan, run_nft)
    gateway = {4: "198.18.8.1", 6: "2001:db8:8::1"}[version]
    ip("-n", HOST, "link", "add", "marked", "type", "veth", "peer", "name", "far-ked")
    for device in ("marked", "far-ked"):
        ip("-n", HOST, "link", "set", device, "up")
    add_address(HOST, "marked", {4: "198.18.8.2", 6: "2001:db8:8::2"}[version])
    ip("-n", HOST, "neighbour", "replace", gateway, "lladdr", "0a:00:00:00:00:01", "dev", "marked")
    ip(f"-{version}", "-n", HOST, "rule", "add", "fwmark", "0x1000", "lookup", "77", "priority", "10")
    ip(f"-{version}", "-n", HOST, "route", "add", "default", "via", gateway, "dev", "marked", "table", "77")
    ip("-n", HOST, "link", "set", NIC, "mtu", "1300")
    with (
        Wire("marked") as marked,
        Wire(BRIDGE) as wire,
        opened(CLIENT, CLIENTS[version], PORT) as asking,
    ):
        found = asked(asking, marked, version)
        large = replace(found.answer(), target_mac=wire.mac, payload=bytes(1350))
        error = {4: (ICMP, 3), 6: (ICMPV6, 2)}[version]
        answer = None
        for _attempt in attempts(60):
            wire.send_frame(not_to_be_fragmented(large.encode(), version))
            if answer := marked.error(*error):
                break
        assert answer.target == found.target


def not_to_be_fragmented(frame: bytes, version: int) -> bytes:
    if version == 6:
        return frame
    header = frame[14:20] + b"\x40\0" + frame[22:24] + b"\0\0" + frame[26:34]
    return frame[:14] + header[:10] + checksum(header).to_bytes(2, "big") + header[12:] + frame[34:]


def know_gateway(version: int) -> None:
    ip("-n", HOST, "neighbour", "replace", GATEWAY[version], "lladdr", "0a:00:00:00:00:01", "dev", MANAGEMENT)


def asked(client: socket.socket, wire: Wire, version: int) -> Packet:
    """Return what becomes of a question to the node port; a link that was just made loses frames."""
    for _attempt in attempts(60):
        client.sendto(b"question", (OWN[version], NODE_PORT))
        if found := wire.packet(b"question"):
            return found
    raise AssertionError("the question did not arrive")


def replace_payload(packet: Packet) -> Packet:
    return replace(packet.answer(), payload=b"answer")


@pytest.mark.parametrize("mode", ["shared", "local"])
def test_nothing_else_is_forwarded_between_networks_of_the_host(host, run_nft, mode):
    """IPv4; with IPv6 a host with workloads forwards between all its interfaces, with Services or without."""
    apply(plan_for(mode, "Cluster"), run_nft)
    assert forwarded(4) == set()


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_what_packets_are_translated_to_is_not_reached_without_translation(host, run_nft, version, policy):
    """Neither cluster IPs nor the masquerade address for local services, by the NIC and from the provider network."""
    plan = plan_for("shared", policy)
    apply(plan, run_nft)
    inner = plan["services"]["default"]["plain/web"]["addresses"][version == 6], LOCAL_SERVICES[version]
    with Wire(BRIDGE) as wire, opened(CLIENT, CLIENTS[version], PORT) as asking:
        found = None
        for _attempt in attempts(60):
            for target, port in itertools.product(inner, (53, NODE_PORT)):
                asking.sendto(b"closed", (target, port))
                ends = OUTSIDE[version], target, UDP, PORT, port
                wire.send(Packet(OUTSIDE_MAC, wire.mac, *ends, payload=b"closed"))
            asking.sendto(b"open", (OWN[version], NODE_PORT))
            if found := wire.packet(b"closed", b"open"):
                break
        assert found.payload == b"open"
        assert wire.packet(b"closed") is None


def test_what_others_have_made_forward_stays(host, run_nft):
    with kernel.in_netns(HOST):
        for nic in (NIC, OTHER):
            Path(f"/proc/sys/net/ipv4/conf/{nic}/forwarding").write_text("1")
    apply(plan_for("shared", "Cluster"), run_nft, routing=(NIC,))
    assert forwarded(4) == {"NIC to NIC", "NIC to provider network", "provider network to NIC"}


def forwarded(version: int) -> set[str]:
    """Return between which networks a packet passes; one to a node port shows that the others have been decided."""
    found: set[str] = set()
    ends = CLIENTS[version], OUTSIDE[version], THIRDS[version]
    with (
        opened(CLIENT, CLIENTS[version], PORT) as near,
        opened(THIRD, THIRDS[version], PORT) as third,
        Wire(BRIDGE) as wire,
    ):
        for one in (near, third):
            one.settimeout(0.5)
        for _attempt in attempts(60):
            near.sendto(b"to third", (ends[2], PORT))
            near.sendto(b"to provider", (ends[1], PORT))
            wire.send(Packet(OUTSIDE_MAC, wire.mac, ends[1], ends[0], UDP, PORT, PORT, payload=b"from provider"))
            near.sendto(b"open", (OWN[version], NODE_PORT))
            while packet := wire.packet(b"open", b"to provider"):
                found.add({b"to provider": "NIC to provider network", b"open": "open"}[packet.payload])
            for receiver, text, name in (
                (third, b"to third", "NIC to NIC"),
                (near, b"from provider", "provider network to NIC"),
            ):
                with contextlib.suppress(TimeoutError):
                    if receiver.recv(100) == text:
                        found.add(name)
            if "open" in found:
                return found - {"open"}
    raise AssertionError("nothing arrived")
