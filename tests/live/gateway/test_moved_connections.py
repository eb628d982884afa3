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
FAMILIES = (4, 6)
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
        return f"{self.name} {self.frame.target} {self.frame.source_port} {number}".encode()

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


def without_one(gone: str, text: str) -> str:
    """The manifests with one endpoint of each network that is not ready."""
    for name in NAMES:
        text = without(name, gone, text)
    return text


def test_a_workload_does_not_stay_with_an_endpoint_that_is_gone(host):
    machine, zone = host(BOTH + SERVICES)
    clients = []
    for name, family in itertools.product(NAMES, FAMILIES):
        frame = request(zone, name, "a", cluster_ip(zone, name, "web", family))
        clients.append(Client(machine, name, f"if-{name}", frame))
    ends = [client.endpoint() for client in clients]
    for gone in "bc":
        sent = [client.sent for client in clients]
        assert zone.apply(without_one(gone, BOTH + SERVICES)).changed
        wanted = other_than(gone)
        for number, client in enumerate(clients):
            client.goes_on_to(wanted)
            client.goes_on_to(wanted)
            if ends[number] == gone:
                new = next(one for one in client.arrived()[wanted] if one > sent[number])
                assert client.arrived()[gone][-1] < new
        ends = [wanted] * len(clients)
    # Without the Service they reach neither. Another one of the network remains.
    assert zone.apply(BOTH + "".join(service(name, "none", "nothing", DNS, HTTP) for name in NAMES)).changed
    for client in clients:
        client.is_lost()


@pytest.mark.parametrize(("mode", "policy"), [("shared", "Cluster"), ("shared", "Local"), ("local", "Cluster")])
def test_an_external_host_does_not_stay_with_an_endpoint_that_is_gone(host, mode, policy):
    text = BOTH + POOL + "".join(exposed(name, policy) for name in NAMES)
    machine, zone = host(text, mode)
    clients = {}
    for name, family in itertools.product(NAMES, FAMILIES):
        for source, (target, port) in enumerate(targets(zone, name, family), start=4000):
            frame = Packet(NEXT_HOP_MAC, MAC, EXTERNAL[family], target, UDP, source, port)
            clients[name, target] = Client(machine, name, UPLINK, frame)
    assert {*NODE.values()} < {target for _name, target in clients}
    for client in clients.values():
        client.endpoint()
    for gone in "bc":
        assert zone.apply(without_one(gone, text)).changed
        machine.apply(zone.plan)
        for client in clients.values():
            client.goes_on_to(other_than(gone))


def test_a_client_that_sends_while_endpoints_change_does_not_stay(host):
    """What it sends between ovn-controller's flows and the datapath that follows them is of new connections."""
    machine, zone = host(BOTH + SERVICES)
    targets, finished = [cluster_ip(zone, "flat", "web", family) for family in FAMILIES], threading.Event()
    first = [replace(request(zone, "flat", "a", target), payload=b"0") for target in targets]
    machine.repeat_until(
        lambda: len({one.source for end in "bc" for one in received(machine, "flat", end)}) == len(FAMILIES),
        lambda: [machine.receive("if-flat", one.encode()) for one in first],
        "the first datagrams",
    )

    def send() -> None:
        for number in itertools.count(1):
            burst = [replace(one, payload=str(number).encode()) for one in first]
            sent = [replace(one, source_port=port).encode() for one in burst for port in BURST]
            machine.receive_all("if-flat", sent)
            if finished.wait(0.01):
                return

    sender = threading.Thread(target=send)
    sender.start()

    def of_burst(end: str) -> list[tuple[tuple[str, int], int]]:
        """Source and number of each datagram at an endpoint."""
        seen = [one for one in received(machine, "flat", end) if one.source_port in BURST]
        return [((one.source, one.source_port), int(one.payload)) for one in seen]

    def have_moved(gone: str) -> bool:
        """Whether all sources are at the other endpoint since the last datagram at this one: none comes back to it."""
        last = max((number for _source, number in of_burst(gone)), default=0)
        sources = {source for source, number in of_burst(other_than(gone)) if number > last}
        return sources == {*itertools.product((one.source for one in first), BURST)}

    try:
        for gone in "bcbc":
            zone.apply(without("flat", gone, BOTH + SERVICES))
            machine.exchange(lambda: have_moved(gone), f"all at {other_than(gone)}")  # noqa: B023
            zone.apply(BOTH + SERVICES)
    finally:
        finished.set()
        sender.join()
