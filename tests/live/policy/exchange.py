# SPDX-License-Identifier: Apache-2.0
"""Packets between the workloads of one host, of which each is the only one of its namespace."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import synchronise
from tests.live.conftest import START_TIMEOUT, wait_for
from tests.live.control_socket import call
from tests.live.gateway.packets import ICMP, ICMPV6, UDP, Packet

PROTOCOLS = (UDP, ICMP, ICMPV6)


def apply(machine, zone, text: str) -> None:
    """Apply manifests, and wait until ovn-controller has made the flows and Open vSwitch decides by them."""
    zone.apply(text)
    with zone.northbound.client() as client, zone.southbound.client() as reader:
        synchronise(client, reader, START_TIMEOUT, chassis="chassis-of-node1")
    # Otherwise the datapath has flows of earlier decisions until they are revalidated.
    call(machine.folder / "vswitchd.ctl", "revalidator/purge")


class Exchange:
    """The workloads of a host that has one of each namespace."""

    def __init__(self, machine, zone, family: int, network: str) -> None:
        self.machine, self.zone, self.family, self.network = machine, zone, family, network

    def apply(self, text: str) -> None:
        """Apply manifests; packets that are sent now meet them."""
        apply(self.machine, self.zone, text)

    def packet(self, source: str, target: str, ports: tuple[int, int], payload: str, protocol: int = UDP) -> Packet:
        ends = [self.zone.interface(f"{name}/a", self.network) for name in (source, target)]
        address = [
            next(one for one in end["addresses"] if (":" in one) == (self.family == 6)).partition("/")[0]
            for end in ends
        ]  # fmt: skip
        kind = 0 if protocol == UDP else (8 if self.family == 4 else 128)
        return Packet(ends[0]["mac"], ends[1]["mac"], *address, protocol, *ports, kind, payload.encode())

    def send(self, source: str, *packets: Packet) -> None:
        for packet in packets:
            self.machine.receive(f"if-{source}", packet.encode())

    def received(self, target: str) -> set[str]:
        """The payloads that a workload got from others."""
        found = self.machine.sent(f"if-{target}")
        return {one.payload.decode() for one in found if isinstance(one, Packet) and one.protocol in PROTOCOLS}

    def wait(self, target: str, payload: str) -> None:
        wait_for(lambda: payload in self.received(target), f"{payload} at {target}")
