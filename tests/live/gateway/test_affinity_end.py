# SPDX-License-Identifier: Apache-2.0
"""Services with session affinity whose chosen endpoint goes, or whose timeout expires."""

from __future__ import annotations

import itertools

import pytest

from tests.live.gateway.test_moved_connections import control_socket, other_than, without
from tests.live.gateway.test_services import DNS, NAMES, TENANTS, cluster_ip, received, request, server, service

__all__ = ["control_socket"]
BOTH = TENANTS + "".join(server(name, "c") for name in NAMES)


def sticky(timeout: int) -> str:
    config = f"{{clientIP: {{timeoutSeconds: {timeout}}}}}"
    more = f", sessionAffinity: ClientIP, sessionAffinityConfig: {config}"
    return BOTH + "".join(service(name, "sticky", "web", DNS, more=more) for name in NAMES)


class Client:
    """Sends from another port each time: with the userspace datapath OVN drops the packet by which it learns."""

    def __init__(self, machine, zone, name: str, family: int) -> None:
        self.machine, self.zone, self.name = machine, zone, name
        self.target, self.ports = cluster_ip(zone, name, "sticky", family), itertools.count(20000)

    def send(self) -> None:
        packet = request(self.zone, self.name, "a", self.target, source_port=next(self.ports))
        self.machine.receive(f"if-{self.name}", packet.encode())

    def reaches(self, end: str) -> None:
        """Send until an endpoint receives something."""
        self.machine.repeat_until(lambda: received(self.machine, self.name, end), self.send, f"{self.name} at {end}")

    def ends(self, count: int) -> set[str]:
        """Which endpoints `count` further connections have."""
        before = {end: len(received(self.machine, self.name, end)) for end in "bc"}

        def grown() -> dict[str, int]:
            return {end: len(received(self.machine, self.name, end)) - before[end] for end in "bc"}

        def enough() -> bool:
            self.send()
            return sum(grown().values()) >= count

        self.machine.exchange(enough, f"connections of {self.name}")
        return {end for end, number in grown().items() if number}


@pytest.mark.parametrize("family", [4, 6])
def test_a_client_gets_another_endpoint_when_its_own_is_gone(host, family):
    text = sticky(10800)
    machine, zone = host(text)
    for name in NAMES:
        client = Client(machine, zone, name, family)
        [first] = client.ends(8)
        assert zone.apply(without(name, first, text)).changed
        client.reaches(other_than(first))
        assert client.ends(8) == {other_than(first)}
        # It stays there when the former one is back.
        assert zone.apply(text).changed
        assert client.ends(8) == {other_than(first)}


@pytest.mark.parametrize("family", [4, 6])
def test_affinity_ends_with_its_timeout(host, family):
    """Each silence that is longer than the timeout lets OVN choose anew, so some choice is the other endpoint.

    A machine that stands still makes silences of its own, so that any connection may have the other endpoint.
    """
    machine, zone = host(sticky(2))
    client = Client(machine, zone, "flat", family)
    seen: set[str] = set()

    def has_learned() -> bool:
        client.send()
        return learned(machine)

    for _choice in range(20):
        machine.exchange(has_learned, "a flow that has learned an endpoint")
        seen |= client.ends(1)
        machine.exchange(lambda: not learned(machine), "no flow that has learned an endpoint")
        if seen == {"b", "c"}:
            return
    pytest.fail("20 choices were the same")


def learned(machine) -> bool:
    """Whether OVN remembers an endpoint of a client (controller/lflow.h, `OFTABLE_CHK_LB_AFFINITY`)."""
    return "table=78" in machine.run(["ovs-ofctl", "dump-flows", "br-int", "table=78"])
