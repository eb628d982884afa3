# SPDX-License-Identifier: Apache-2.0
"""Frames between workloads of a mesh: real daemons, real switches, real packets."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import time
from collections.abc import Callable

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.live.conftest import START_TIMEOUT, stop, wait_for
from tests.live.gateway.packets import UDP, Packet, decode
from tests.live.mesh.conftest import REPEAT_SECONDS
from tests.live.tls import Authority
from tests.pipeline import namespace, plan_of, workload

BROADCAST = "ff:ff:ff:ff:ff:ff"
HOSTS = ("node1", "node2", "node3")


def mesh_network(name: str, *subnets: str) -> str:
    listed = ", ".join(f'"{subnet}"' for subnet in subnets)
    return (
        "---\napiVersion: heddle.dev/v1\nkind: MeshNetwork\n"
        f"metadata: {{name: {name}, namespace: red}}\nspec: {{role: Secondary, subnets: [{listed}]}}\n"
    )


def manifests(*more: str) -> str:
    networks = mesh_network("net", "10.9.0.0/24", "fd00:9::/64") + mesh_network("other", "10.9.0.0/24", "fd00:9::/64")
    workloads = "".join(workload("red", f"a{number}", node, "net") for number, node in enumerate(HOSTS, start=1))
    return namespace("red", primary=False) + networks + workloads + "".join(more)


def hosts(version: int, **facts) -> dict[str, dict]:
    addresses = {4: "198.51.100.{}", 6: "2001:db8:9::{}"}[version]
    return {
        name: {"chassis": f"c-{name}", "encap_ips": [addresses.format(number)], **facts.get(name, {})}
        for number, name in enumerate(HOSTS, start=1)
    }


def packet(fleet, source: str, target: str, family: int = 4, payload: bytes = b"heddle") -> Packet:
    """A packet between two workloads."""
    place = {4: 0, 6: 1}[family]
    ends = fleet.wire(source), fleet.wire(target)
    return Packet(ends[0].mac, ends[1].mac, ends[0].addresses[place], ends[1].addresses[place], UDP, 1000, 2000,
                  payload=payload)  # fmt: skip


def broadcast(fleet, source: str) -> Callable[[bytes], bytes]:
    """A function that makes broadcasts of a workload with a text."""
    wire = fleet.wire(source)
    return lambda text: Packet(wire.mac, BROADCAST, wire.addresses[0], "10.9.0.255", UDP, 1, 2, payload=text).encode()


def send_until(fleet, source: str, target: str, count: int) -> None:
    """Send packets between two workloads until so many have arrived, as some are lost where a host stands still."""
    arrived = 0

    def enough() -> bool:
        nonlocal arrived
        for _time in range(10):
            fleet.wire(source).send(packet(fleet, source, target).encode())
        arrived += len(fleet.receive_all(0).get(target, ()))
        return arrived >= count

    wait_for(enough, f"{count} packets of {source} at {target}")


def kill(process) -> None:
    process.kill()
    process.wait()


def exchange(fleet, one: str, other: str, family: int = 4) -> None:
    """Send a packet in each direction; the second one is for an address that is known now.

    A packet is sent again after `REPEAT_SECONDS`: a mesh loses frames while a connection changes its overlay or its
    route, which a host that does not run for seconds can cause.
    """
    for source, target in ((one, other), (other, one), (one, other)):
        sent = packet(fleet, source, target, family)
        received: list[Packet] = []
        times: list[float] = []

        def arrived(source=source, target=target, sent=sent, received=received, times=times) -> bool:
            if not times or time.monotonic() > times[-1] + REPEAT_SECONDS:
                fleet.wire(source).send(sent.encode())
                times.append(time.monotonic())
            while (frame := fleet.wire(target).receive()) is not None:
                received.append(decode(frame))
            return sent in received

        wait_for(arrived, f"a packet from {source} at {target}")
        if len(times) > 1:
            fleet.receive_all()


@pytest.mark.parametrize("version", [4, 6])
def test_frames_pass_between_all_hosts(fleet, version):
    fleet.start(plan_of(manifests(workload("red", "b2", "node2", "other")), hosts=hosts(version)))
    for family in (4, 6):
        for one, other in (("red/a1", "red/a2"), ("red/a1", "red/a3"), ("red/a2", "red/a3")):
            exchange(fleet, one, other, family)
    fleet.receive_all()

    # A broadcast arrives once at each other host, nowhere else, and does not come back.
    fleet.arrive_once("red/a1", broadcast(fleet, "red/a1"), {"red/a2", "red/a3"})

    # A frame with a VLAN tag stays as it is.
    def tagged(text: bytes) -> bytes:
        frame = packet(fleet, "red/a1", "red/a3", payload=text).encode()
        return frame[:12] + bytes.fromhex("8100 0064") + frame[12:]

    fleet.arrive_once("red/a1", tagged, {"red/a3"})

    # Networks are apart, although their subnets and ports are equal. What the same host sends later has arrived.
    foreign = broadcast(fleet, "red/b2")(b"other")
    fleet.wire("red/b2").send(foreign)
    fleet.arrive_once("red/a2", broadcast(fleet, "red/a2"), {"red/a1", "red/a3"}, never=foreign)

    # Packets of established flows do not reach the daemon.
    node1 = fleet.hosts["node1"]

    def undisturbed() -> bool:
        """Whether no connection has changed its way meanwhile, with which flows go and are learned again."""
        exchange(fleet, "red/a1", "red/a2")
        since, misses, known = time.monotonic(), node1.answered()["misses"], node1.flows()
        send_until(fleet, "red/a1", "red/a2", 200)
        later, flows = node1.answered(), node1.flows()
        elapsed = time.monotonic() - since
        if any((one["chosen_seconds"] or 0) < elapsed + 1 for one in later["connections"]):
            return False
        assert later["misses"] - misses < 100
        assert len(flows) <= len(known)
        return True

    wait_for(undisturbed, "connections that keep their way")


def test_relay_between_hosts_without_a_path(fleet):
    """node1 and node3 reach each other over node2 only."""
    chain = {"node1": {"mesh_neighbours": ["node2"]}, "node3": {"mesh_neighbours": ["node2"]}}
    fleet.start(plan_of(manifests(), hosts=hosts(4, **chain)), apart=("node1", "node3"))
    assert fleet.hosts["node1"].states() == {"node2": "established"}
    assert fleet.hosts["node1"].answered()["peers"]["node3"]["next_hop"] == "node2"
    for family in (4, 6):
        exchange(fleet, "red/a1", "red/a3", family)
    exchange(fleet, "red/a2", "red/a3")
    fleet.receive_all()
    fleet.arrive_once("red/a3", broadcast(fleet, "red/a3"), {"red/a1", "red/a2"})
    # The relay forwards by a flow too.
    misses = fleet.hosts["node2"].answered()["misses"]
    send_until(fleet, "red/a1", "red/a3", 100)
    assert fleet.hosts["node2"].answered()["misses"] - misses < 50


def test_a_workload_moves_to_another_host(fleet):
    """Its first frame there moves its MAC address on all hosts: nothing more goes to the host that it has left."""
    fleet.start(plan_of(manifests(), hosts=hosts(4)))
    for other in ("red/a1", "red/a2"):
        exchange(fleet, other, "red/a3")
    before = fleet.wire("red/a3").mac
    fleet.hosts["node3"].wires.pop("red/a3").close()
    fleet.apply(plan_of(manifests().replace("spec: {node: node3}", "spec: {node: node2}"), hosts=hosts(4)))
    moved = fleet.hosts["node2"].wires["red/a3"]
    assert moved.mac == before
    fleet.receive_all()

    announcement = broadcast(fleet, "red/a3")(b"moved")

    def is_there() -> bool:
        """The daemon of the new host has to have its port first; until then frames are dropped."""
        moved.send(announcement)
        return "red/a1" in fleet.receive_all(0.1)

    wait_for(is_there, "a frame from the new host")
    fleet.receive_all()
    for source in ("red/a1", "red/a2"):
        fleet.arrive_once(source, lambda text, source=source: packet(fleet, source, "red/a3", payload=text).encode(),
                          {"red/a3"})  # fmt: skip
        exchange(fleet, source, "red/a3", 6)
    assert fleet.hosts["node3"].answered()["connections"]


def test_interruptions(fleet):
    """A daemon that was killed, a restarted switch, unknown clients at the control port."""
    fleet.start(plan_of(manifests(), hosts=hosts(4)))
    first, second = fleet.hosts["node1"], fleet.hosts["node2"]

    def is_learned() -> bool:
        """Whether the daemons see no packet; flows of a former route may be there besides, until they are unused."""
        before = [host.answered()["misses"] for host in (first, second)]
        exchange(fleet, "red/a1", "red/a2")
        return [host.answered()["misses"] for host in (first, second)] == before

    wait_for(is_learned, "flows for both directions")

    # Established flows need no daemon; the other one would remove its own some seconds after the end of this one.
    fleet.receive_all()
    second.daemon.send_signal(signal.SIGSTOP)
    kill(first.daemon)
    fleet.wire("red/a1").send(packet(fleet, "red/a1", "red/a2").encode())
    assert len(fleet.receive_all(expected={"red/a2": 1})["red/a2"]) == 1
    second.daemon.send_signal(signal.SIGCONT)
    first.start_daemon(fleet.authority)
    fleet.wait_established()
    exchange(fleet, "red/a1", "red/a2")

    def arrive() -> bool:
        """Whether a packet arrives in each direction; the switches look for each other's new MAC addresses first."""
        for source, target in (("red/a1", "red/a2"), ("red/a2", "red/a1")):
            fleet.wire(source).send(packet(fleet, source, target).encode())
            if target not in fleet.receive_all(0.2):
                return False
        return True

    # ovs-vswitchd loses all flows, when it ends and when it is killed; the daemon makes them again.
    for end in (stop, kill):
        end(second.process)
        second.start_vswitchd()
        second.address_underlay()
        wait_for(arrive, "packets after the restart")
        exchange(fleet, "red/a1", "red/a2")

    # A certificate of another authority opens nothing, bytes that are no TLS neither.
    foreign = Authority(fleet.folder, "foreign").issue("node3")
    with kernel.in_netns(fleet.hosts["node3"].netns):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(foreign.certificate, foreign.private_key)
        plain = socket.create_connection(("198.51.100.1", 6783), START_TIMEOUT)
        # With TLS 1.3 the refusal arrives after the handshake: as an alert, or as the end of the connection.
        with contextlib.suppress(ssl.SSLError, ConnectionError), context.wrap_socket(plain) as secure:
            assert secure.recv(1) == b""
        with socket.create_connection(("198.51.100.1", 6783), START_TIMEOUT) as plain:
            plain.sendall(bytes(range(256)) * 40)
            with contextlib.suppress(ConnectionResetError):
                while plain.recv(4096):
                    pass
    exchange(fleet, "red/a1", "red/a2")


def test_hosts_that_chose_the_same_short_id(fleet):
    """The host of the lowest name keeps it, the others choose again, and tunnels are for the new ids."""
    fleet.start(plan_of(manifests(), hosts=hosts(4)), short_id="5")
    found: dict[str, dict] = {}

    def ids() -> dict[str, int]:
        return {node: state["short_id"] for node, state in found.items()}

    def agreed() -> bool:
        """Whether no two have the same one, and all know that of each other."""
        found.update({node: host.status() for node, host in fleet.hosts.items()})
        return all(found.values()) and len({*ids().values()}) == len(HOSTS) and all(
            {other: one["short_id"] for other, one in state["peers"].items()}
            == {other: one for other, one in ids().items() if other != node}
            for node, state in found.items()
        )  # fmt: skip

    wait_for(agreed, "short ids that all know")
    assert ids()[min(found, key=lambda node: found[node]["name"])] == 5
    for one, other in (("red/a1", "red/a2"), ("red/a1", "red/a3"), ("red/a2", "red/a3")):
        exchange(fleet, one, other)
