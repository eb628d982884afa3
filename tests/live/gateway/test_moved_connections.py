# SPDX-License-Identifier: Apache-2.0
"""UDP of clients that keep their source port, after endpoints are gone: it is not a connection that goes on."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace

import pytest

from tests.live.gateway.conftest import MAC, NEXT_HOP_MAC, UPLINK
from tests.live.gateway.external_host import EXTERNAL, NODE
from tests.live.gateway.packets import UDP, Packet
from tests.live.gateway.test_node_ports import POOL, exposed, targets
from tests.live.gateway.test_services import (
    DNS,
    HTTP,
    NAMES,
    SERVICES,
    TENANTS,
    cluster_ip,
    received,
    request,
    server,
    service,
)

# A burst of datagrams, which a client sends again and again while endpoints change.
BURST = range(6000, 6020)
BOTH = TENANTS + "".join(server(name, "c") for name in NAMES)


@pytest.fixture(autouse=True)
def control_socket(folder):
    """The control socket of ovs-vswitchd under the name that the process gives it."""
    (folder / "ovs-vswitchd.pid").write_text("7\n")
    (folder / "ovs-vswitchd.7.ctl").symlink_to(folder / "vswitchd.ctl")


def without(name: str, which: str, text: str) -> str:
    """The manifests with one workload that is not ready."""
    ready = server(name, which)
    assert ready in text
    return text.replace(ready, ready.replace("spec: {ports", "spec: {ready: false, ports"))


class Client:
    """Sends one frame again and again, each time with another number."""

    def __init__(self, machine, name: str, port: str, frame: Packet) -> None:
        self.machine, self.name, self.port, self.frame = machine, name, port, frame
        self.numbers = itertools.count()
        self.sent = 0

    def send(self) -> None:
        self.sent = next(self.numbers)
        self.machine.receive(self.port, replace(self.frame, payload=self.text(self.sent)).encode())

    def text(self, number: int) -> bytes:
        return f"{self.name} {self.frame.source_port} {number}".encode()

    def arrived(self) -> dict[str, list[int]]:
        """The numbers that each endpoint has received."""
        numbers = {self.text(number): number for number in range(self.sent + 1)}
        return {
            end: [numbers[one.payload] for one in received(self.machine, self.name, end) if one.payload in numbers]
            for end in "bc"
        }

    def endpoint(self) -> str:
        """Send until an endpoint has received something; returns which."""
        self.machine.repeat_until(lambda: any(self.arrived().values()), self.send, f"datagrams of {self.name}")
        (found,) = (end for end, numbers in self.arrived().items() if numbers)
        # A second one goes on to the same endpoint: it is of a connection that is known.
        self.goes_on_to(found)
        return found

    def goes_on_to(self, end: str) -> None:
        """Send until an endpoint receives something that was not sent before."""
        since = self.sent
        self.machine.repeat_until(
            lambda: self.arrived()[end][-1:] > [since], self.send, f"datagrams of {self.text(since)} at {end}"
        )

    def is_lost(self) -> None:
        """Send until three in a row have not arrived anywhere."""
        last = lambda: max(number for numbers in self.arrived().values() for number in numbers)  # noqa: E731
        self.machine.repeat_until(lambda: self.sent > last() + 3, self.send, f"no datagrams of {self.name}")


def other_than(end: str) -> str:
    return "c" if end == "b" else "b"


@pytest.mark.parametrize("family", [4, 6])
def test_a_workload_does_not_stay_with_an_endpoint_that_is_gone(host, family):
    machine, zone = host(BOTH + SERVICES)
    clients = {}
    for name in NAMES:
        frame = request(zone, name, "a", cluster_ip(zone, name, "web", family))
        clients[name] = Client(machine, name, f"if-{name}", frame)
    ends = {name: client.endpoint() for name, client in clients.items()}
    text = BOTH + SERVICES
    for name in NAMES:
        text = without(name, ends[name], text)
    assert zone.apply(text).changed
    for name, client in clients.items():
        wanted = other_than(ends[name])
        client.goes_on_to(wanted)
        client.goes_on_to(wanted)
        assert client.arrived()[ends[name]][-1] < client.arrived()[wanted][0]
    # Without the Service they reach neither. Another one of the network remains.
    assert zone.apply(BOTH + "".join(service(name, "none", "nothing", DNS, HTTP) for name in NAMES)).changed
    for client in clients.values():
        client.is_lost()


@pytest.mark.parametrize(("mode", "policy"), [("shared", "Cluster"), ("shared", "Local"), ("local", "Cluster")])
@pytest.mark.parametrize("family", [4, 6])
def test_an_external_host_does_not_stay_with_an_endpoint_that_is_gone(host, family, mode, policy):
    text = BOTH + POOL + "".join(exposed(name, policy) for name in NAMES)
    machine, zone = host(text, mode)
    clients = {}
    for name in NAMES:
        for source, (target, port) in enumerate(targets(zone, name, family), start=4000):
            frame = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], target, UDP, source, port)
            clients[name, target] = Client(machine, name, UPLINK, frame)
    assert {NODE[family]} < {target for _name, target in clients}
    for client in clients.values():
        client.endpoint()
    for gone in "bc":
        changed = text
        for name in NAMES:
            changed = without(name, gone, changed)
        assert zone.apply(changed).changed
        machine.apply(zone.plan)
        for client in clients.values():
            client.goes_on_to(other_than(gone))


@pytest.mark.parametrize("family", [4, 6])
def test_a_client_that_sends_while_endpoints_change_does_not_stay(host, family):
    """What it sends between ovn-controller's flows and the datapath that follows them is of new connections."""
    machine, zone = host(BOTH + SERVICES)
    target, finished = cluster_ip(zone, "flat", "web", family), threading.Event()
    first = replace(request(zone, "flat", "a", target), payload=b"0")
    machine.repeat_until(
        lambda: received(machine, "flat", "b") + received(machine, "flat", "c"),
        lambda: machine.receive("if-flat", first.encode()),
        "the first datagram",
    )

    def send() -> None:
        for number in itertools.count(1):
            burst = [replace(first, source_port=port, payload=str(number).encode()).encode() for port in BURST]
            machine.receive_all("if-flat", burst)
            if finished.wait(0.01):
                return

    sender = threading.Thread(target=send)
    sender.start()

    def of_burst(end: str) -> list[tuple[int, int]]:
        """Port and number of each datagram at an endpoint."""
        seen = [one for one in received(machine, "flat", end) if one.source_port in BURST]
        return [(one.source_port, int(one.payload)) for one in seen]

    def have_moved(gone: str) -> bool:
        """Whether all ports are at the other endpoint since the last datagram at this one: none comes back to it."""
        last = max((number for _port, number in of_burst(gone)), default=0)
        return {port for port, number in of_burst(other_than(gone)) if number > last} == {*BURST}

    try:
        for gone in "bcbc":
            zone.apply(without("flat", gone, BOTH + SERVICES))
            machine.exchange(lambda: have_moved(gone), f"all at {other_than(gone)}")  # noqa: B023
            zone.apply(BOTH + SERVICES)
    finally:
        finished.set()
        sender.join()
