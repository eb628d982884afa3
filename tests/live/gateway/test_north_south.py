# SPDX-License-Identifier: Apache-2.0
"""Packets of workloads through OVN and the provider bridge to an external host and back, shared gateway mode.

Networks with equal subnets, workloads with equal addresses, connections with equal ports to one server at one time.
"""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway import neighbour_flows
from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, NAMES, NODE, conversations, request_of
from tests.live.gateway.packets import TCP, UDP, Packet


@pytest.mark.parametrize("group", [50, 1])
@pytest.mark.parametrize("family", [4, 6])
def test_concurrent_external_connections_get_their_replies(host, family, group, monkeypatch):
    monkeypatch.setattr(neighbour_flows, "GROUP_SIZE", group)
    machine, zone = host(MANIFESTS)
    assert any(flow.table >= neighbour_flows.GROUP_TABLES for flow in machine.flows(zone.plan)) is (group == 1)
    assert not machine.apply(zone.plan).changed
    for seen in conversations(machine, zone, family):
        assert {(packet.source, packet.source_mac, packet.target_mac) for packet in seen.values()} == {
            (NODE[family], MAC, NEXT_HOP_MAC)
        }
        assert len({packet.source_port for packet in seen.values()}) == len(NAMES)
    assert not [packet for packet in machine.sent(BRIDGE) if isinstance(packet, Packet) and packet.target_port]


@pytest.mark.parametrize("family", [4, 6])
def test_host_receives_its_traffic_and_external_hosts_reach_no_workload(shared_host, family):
    machine, zone = shared_host(MANIFESTS)
    to_host = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], NODE[family], UDP, 4000, 22, payload=b"host")
    machine.receive(UPLINK, to_host.encode())
    machine.exchange(lambda: to_host in machine.sent(BRIDGE), "the packet for the host")
    machine.receive(BRIDGE, to_host.answer().encode())
    machine.exchange(lambda: to_host.answer() in machine.sent(UPLINK), "the host's answer")
    for name in NAMES:
        inner = request_of(zone, name, UDP, family)
        intruder = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], inner.source, UDP, 4000, 5000, payload=b"intruder")
        machine.receive(UPLINK, intruder.encode())
    # What came in last is out: what came before would be, too.
    last = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], NODE[family], UDP, 4001, 22, payload=b"last")
    machine.receive(UPLINK, last.encode())
    machine.exchange(lambda: last in machine.sent(BRIDGE), "the last packet")
    for name in NAMES:
        seen = [packet for packet in machine.sent(f"if-{name}") if isinstance(packet, Packet)]
        assert not [packet for packet in seen if packet.source == EXTERNAL[family]]


@pytest.mark.parametrize("family", [4, 6])
def test_nothing_leaves_with_an_address_of_its_network(shared_host, family):
    """An answer to no connection is invalid to connection tracking, which then does not translate it."""
    machine, zone = shared_host(MANIFESTS)
    for name in NAMES:
        valid = request_of(zone, name, UDP, family)
        machine.receive(f"if-{name}", Packet(**{**vars(valid), "protocol": TCP, "payload": b""}).encode())
        machine.receive(f"if-{name}", valid.encode())

    def seen() -> list[Packet]:
        return [one for one in machine.sent(UPLINK) if isinstance(one, Packet) and one.target == EXTERNAL[family]]

    # What is sent after the answers has left, so they would have, too.
    machine.exchange(lambda: len({one.payload for one in seen()} - {b""}) == len(NAMES), "what the workloads sent")
    assert {one.source for one in seen()} == {NODE[family]}


@pytest.mark.parametrize("family", [4, 6])
def test_the_provider_bridge_tracks_sctp_as_other_transports(shared_host, family):
    """Which flows a packet takes; the userspace datapath's connection tracking itself does not know SCTP."""
    machine, _zone = shared_host(MANIFESTS)
    address = {4: "nw_src={},nw_dst={}", 6: "ipv6_src={},ipv6_dst={}"}[family]

    def flows(transport: str, port: str, source: str, target: str) -> list[str]:
        name = transport if family == 4 else f"{transport}6"
        macs = f"dl_src={MAC},dl_dst={NEXT_HOP_MAC}" if port != UPLINK else f"dl_src={NEXT_HOP_MAC},dl_dst={MAC}"
        ends = f"{address.format(source, target)},{transport}_src=40000,{transport}_dst=40000"
        shown = machine.run(["ovs-appctl", "ofproto/trace", BRIDGE, f"in_port={port},{name},{macs},{ends}"])
        return [line.split("priority")[1] for line in shown.splitlines() if "priority" in line]

    ports = machine.tools.run("ovs-vsctl", f"--db={machine.vswitch.remote}", "list-ports", BRIDGE).split()
    patches = [port for port in ports if port.startswith("patch-")]
    assert len(patches) == len(NAMES)
    ends = [(patch, NODE[family], EXTERNAL[family]) for patch in patches]
    for port, source, target in [*ends, (UPLINK, EXTERNAL[family], NODE[family])]:
        tracked = flows("sctp", port, source, target)
        assert tracked
        assert tracked == flows("udp", port, source, target), port


@pytest.mark.parametrize("family", [4, 6])
def test_open_connections_follow_a_new_provider_address(host, family):
    machine, zone = host(MANIFESTS)
    request = request_of(zone, "flat", UDP, family)

    def sources() -> set[str]:
        found = [packet for packet in machine.sent(UPLINK) if isinstance(packet, Packet)]
        return {packet.source for packet in found if packet.target == EXTERNAL[family]}

    machine.receive("if-flat", request.encode())
    machine.exchange(lambda: sources() == {NODE[family]}, "what the workload sent")
    moved = {4: "192.0.2.99/24", 6: "2001:db8::99/64"}
    facts = {**zone.plan["nodes"]["node1"]["gateway"], "addresses": list(moved.values())}
    plan = {**zone.plan, "nodes": {**zone.plan["nodes"], "node1": {**zone.plan["nodes"]["node1"], "gateway": facts}}}
    assert machine.apply(plan).changed
    new = moved[family].partition("/")[0]
    # The datapath follows new flows after a while.
    machine.send_until(lambda: new in sources(), "if-flat", request.encode(), "the packet with the new address")
    assert not machine.apply(plan).changed
