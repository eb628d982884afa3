# SPDX-License-Identifier: Apache-2.0
"""The fallback overlay: paths that swallow large packets, or those of VXLAN, and what becomes of traffic."""

from __future__ import annotations

import random
import signal
import socket

from ansible_collections.heddle.ovn.plugins.module_utils.mesh import sleeve
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.live.conftest import wait_for
from tests.live.mesh.conftest import ip
from tests.live.mesh.stream import Stream
from tests.live.mesh.test_mesh import exchange, hosts, manifests, mesh_network, packet
from tests.pipeline import namespace, plan_of, workload

MTU = 1400
# Ethernet and IPv4 with UDP around a datagram, Ethernet again within.
OUTER, INNER = 14 + 20 + 8, 14
GARBAGE = 100_000


def two_hosts():
    described = hosts(4)
    del described["node3"]
    text = namespace("red", primary=False) + mesh_network("net", "10.9.0.0/24", "fd00:9::/64")
    text += workload("red", "a1", "node1", "net") + workload("red", "a2", "node2", "net")
    return plan_of(text, hosts=described)


def wait_overlay(fleet, overlays: dict[tuple[str, str], str | None]) -> None:
    def chosen() -> bool:
        return all(fleet.hosts[one].overlay(other) == overlay for (one, other), overlay in overlays.items())

    wait_for(chosen, f"overlays {overlays}")


def test_path_that_swallows_large_packets_in_one_direction(fleet):
    """A TCP stream goes on: over the fallback in this direction, over the fast datapath in the other, and back."""
    fleet.start(two_hosts())
    first, second = fleet.hosts["node1"], fleet.hosts["node2"]
    wait_overlay(fleet, {("node1", "node2"): "fastdp", ("node2", "node1"): "fastdp"})
    addresses = fleet.wire("red/a2").addresses
    ends = first.station("red/a1", MTU), second.station("red/a2", MTU)
    streams = [Stream(*ends, address) for address in addresses]
    try:
        for stream in streams:
            stream.run(lambda: True, "the undisturbed stream")
        second.swallow(1000)
        for stream in streams:
            stream.run(lambda: first.overlay("node2") == "sleeve", "the stream over the fallback")
        wait_overlay(fleet, {("node1", "node2"): "sleeve", ("node2", "node1"): "fastdp"})
        wait_for(lambda: "no packet of" in first.connection("node2").get("why", ""), "the reason")

        # The search ends with the size that the path takes. IPv4 senders get a notice; IPv6 has no MTU below 1280.
        expected = 1000 - OUTER - sleeve.OVERHEAD - INNER
        streams[0].run(
            lambda: first.connection("node2").get("fallback") == {"mtu": expected, "searching": False}, "the size"
        )
        assert f"mtu {expected}" in kernel_route(ends[0], addresses[0])
        for stream in streams:
            stream.run(lambda: True, "the stream over the known path")

        second.impair()
        for stream in streams:
            stream.run(lambda: first.overlay("node2") == "fastdp", "the stream after the path was healed")
    finally:
        for stream in streams:
            stream.close()


BOTH = {("node1", "node2"): "fastdp", ("node2", "node1"): "fastdp"}


def one_stream(fleet):
    """Start two hosts; return them and a stream between their workloads, which nothing disturbs yet."""
    fleet.start(two_hosts())
    first, second = fleet.hosts["node1"], fleet.hosts["node2"]
    wait_overlay(fleet, BOTH)
    address = fleet.wire("red/a2").addresses[0]
    return first, second, Stream(first.station("red/a1", MTU), second.station("red/a2", MTU), address)


def test_a_cut_control_channel_stops_no_traffic(fleet):
    """Heartbeats still arrive, only their acknowledgements do not: nothing better is known, so nothing changes."""
    first, _second, stream = one_stream(fleet)

    def silence() -> float:
        """Seconds since the last acknowledgement."""
        return first.connection("node2").get("overlays", {}).get("fastdp", {}).get("confirmed") or 0.0

    try:
        stream.run(lambda: True, "the undisturbed stream")
        first.impair(*(f"priority=100,tcp,{port}=6783,actions=drop" for port in ("tp_src", "tp_dst")))
        # Longer than the 3 s after which a host that is silent counts as gone.
        stream.run(lambda: silence() > 4, "the stream without a control channel")
        wait_overlay(fleet, BOTH)
        first.impair()
        stream.run(lambda: 0 < silence() < 1, "the stream after the control channel was healed")
        wait_overlay(fleet, BOTH)
    finally:
        stream.close()


def test_a_daemon_that_stands_still_stops_no_traffic_and_a_path_that_is_cut_is_left(fleet):
    """No heartbeat arrives in either case. The kernel of a host whose daemon is slow acknowledges what it receives."""
    first, second, stream = one_stream(fleet)

    def silence() -> float:
        """Seconds since the last heartbeat of the other host."""
        overlays = first.connection("node2").get("overlays", {})
        return min((one["heard"] or 0.0 for one in overlays.values()), default=0.0)

    try:
        stream.run(lambda: True, "the undisturbed stream")
        second.daemon.send_signal(signal.SIGSTOP)
        stream.run(lambda: silence() > 6, "the stream beside a daemon that stands still")
        assert first.overlay("node2") == "fastdp"
        second.daemon.send_signal(signal.SIGCONT)
        stream.run(lambda: 0 < silence() < 1, "the stream beside a daemon that runs again")
        wait_overlay(fleet, BOTH)
        first.impair("priority=100,in_port=eth1,actions=drop")
        wait_overlay(fleet, {("node1", "node2"): None, ("node2", "node1"): None})
        first.impair()
        wait_overlay(fleet, BOTH)
    finally:
        second.daemon.send_signal(signal.SIGCONT)
        stream.close()


def kernel_route(netns: str, address: str) -> str:
    return ip("-n", netns, "route", "get", address)


def test_path_without_vxlan(fleet):
    """Frames of all kinds over the fallback, also where a relay has it on one side only."""
    chain = {"node1": {"mesh_neighbours": ["node2"]}, "node3": {"mesh_neighbours": ["node2"]}}
    fleet.start(plan_of(manifests(), hosts=hosts(6, **chain)), apart=("node1", "node3"))
    first, second = fleet.hosts["node1"], fleet.hosts["node2"]
    wait_overlay(fleet, {("node1", "node2"): "fastdp", ("node2", "node1"): "fastdp", ("node2", "node3"): "fastdp"})
    exchange(fleet, "red/a1", "red/a3")
    assert first.flows()

    first.impair("priority=100,udp6,tp_dst=6784,actions=drop")
    wait_overlay(fleet, {("node1", "node2"): "sleeve", ("node2", "node1"): "sleeve", ("node2", "node3"): "fastdp"})
    # Flows of the failed path go, and no others come.
    wait_for(lambda: first.flows() == [], "the end of the flows")
    for family in (4, 6):
        for other in ("red/a2", "red/a3"):
            exchange(fleet, "red/a1", other, family)
    assert first.flows() == []
    fleet.receive_all()

    def frame(text: bytes) -> bytes:
        return packet(fleet, "red/a1", "red/a3", payload=text).encode()

    def tagged(text: bytes) -> bytes:
        return frame(text)[:12] + bytes.fromhex("8100 0064") + frame(text)[12:]

    for make, expected in (
        (tagged, {"red/a3"}), (lambda text: frame(text.ljust(MTU - 28)), {"red/a3"}),
        (lambda text: b"\xff" * 6 + frame(text)[6:], {"red/a2", "red/a3"}),
    ):  # fmt: skip
        fleet.arrive_once("red/a1", make, expected)

    # Bytes of no connection change nothing, although they are of a neighbour's address: at the port of the fallback,
    # and within VXLAN, which the bridge hands to the daemon.
    chance = random.Random(1)
    before, memory = second.answered(), second.memory()
    with kernel.in_netns(fleet.hosts["node3"].netns), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
        for _time in range(GARBAGE // 2):
            data = chance.randbytes(chance.randrange(1, 200))
            client.sendto(data, ("2001:db8:9::2", 6783))
            client.sendto(b"\x08\0\0\0" + data, ("2001:db8:9::2", 6784))
    wait_for(lambda: sum(second.answered()["dropped"].values()) > sum(before["dropped"].values()), "refused datagrams")
    wait_for(lambda: second.answered()["misses"] > before["misses"], "refused frames")
    # Of what has arrived nothing is kept.
    assert second.memory() < memory + 8 * 2**20
    exchange(fleet, "red/a1", "red/a3")

    first.impair()
    wait_overlay(fleet, {("node1", "node2"): "fastdp", ("node2", "node1"): "fastdp"})
    for _time in range(2):
        exchange(fleet, "red/a1", "red/a3")
    wait_for(first.flows, "flows of the path")
    wait_for(lambda: second.connection("node1").get("flows"), "flows of the connection")
