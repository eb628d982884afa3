# SPDX-License-Identifier: Apache-2.0
"""Random policies and labels, with packets: what arrives is what the model of the Kubernetes API permits.

All tenants of a batch are on one host at once, with equal subnets. The next batch changes labels, named ports and
policies of the same workloads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from tests import policy_model
from tests.live.gateway.conftest import interface_of
from tests.live.gateway.packets import ICMP, ICMPV6, SYN, TCP, UDP, Answer, Packet, Question
from tests.live.policy.exchange import apply
from tests.policy_model import Connection
from tests.policy_sets import drawn_sets
from tests.policy_tenants import PLACES, Tenant, baseline, text_of

# Primary networks of both topologies and of all families, secondary ones, and the default network.
NETWORKS = 17
BATCHES = int(os.environ.get("HEDDLE_POLICY_PACKET_BATCHES", "3"))
SEED = int(os.environ.get("HEDDLE_POLICY_SEED", "15"))
# Open vSwitch's connection tracking in user space does not know SCTP.
KINDS = [("TCP", 80), ("UDP", 53), ("ICMP", 0), ("TCP", 8080), ("UDP", 80), ("TCP", 90)]
LOCAL = [index for index, (_place, node) in enumerate(PLACES) if node == "node1"]


@dataclass(frozen=True)
class Sent:
    """The first packet of a connection between two interfaces of the host, with a source port that is its number."""

    tenant: Tenant
    connection: Connection
    packet: Packet
    ends: tuple[str, str]
    permitted: bool

    @property
    def number(self) -> int:
        return self.packet.source_port

    def __str__(self) -> str:
        text = "arrive" if self.permitted else "be dropped"
        return f"HEDDLE_POLICY_SEED={SEED}: {self.connection} must {text}:\n{text_of(self.tenant.policies)}"


def test_packets_arrive_as_the_model_says(host):
    # hypothesis draws sets of which neighbours are alike.
    sets = drawn_sets(4 * NETWORKS * BATCHES, SEED)[3::4]
    machine = zone = None
    numbers, permitted, refused = iter(range(10_000, 65_536)), 0, 0
    for batch in range(BATCHES):
        chosen = sets[batch * NETWORKS :][:NETWORKS]
        of_cluster = baseline(chosen[0])
        tenants = [Tenant(position, drawn, of_cluster) for position, drawn in enumerate(chosen)]
        text = text_of(of_cluster) + "".join(tenant.manifests() for tenant in tenants)
        if zone is None:
            machine, zone = host(text)
        apply(machine, zone, text)
        sent = [one for tenant in tenants for one in packets(tenant, zone.plan, numbers)]
        wires = Wires(machine, zone.plan, tenants)
        wires.send((one.ends[0], one.packet) for one in sent)
        arrived = wires.received()
        for one in sent:
            assert ((one.ends[1], one.number) in arrived) == one.permitted, str(one)
        # Nothing came anywhere else.
        opened = {(one.ends[1], one.number) for one in sent if one.permitted}
        assert arrived.keys() == opened
        # Replies of what is permitted pass, whatever the other direction permits.
        wires.send((interface, packet.answer()) for (interface, _number), packet in arrived.items())
        answered = wires.received().keys() - opened
        assert answered == {(one.ends[0], one.number) for one in sent if one.permitted}
        permitted += len(opened)
        refused += len(sent) - len(opened)
    assert permitted
    assert refused


def packets(tenant: Tenant, plan: dict, numbers: Iterator[int]) -> Iterator[Sent]:
    """Yield what the tenant's workloads on the host send to each other."""
    endpoints = tenant.endpoints(plan)
    for source in LOCAL:
        for target in (one for one in LOCAL if one != source):
            ends = [endpoints[source], endpoints[target]]
            macs = [tenant.interface(plan, index)["mac"] for index in (source, target)]
            for version in tenant.families:
                for kind in KINDS:
                    connection = Connection(*ends, version, *kind)
                    yield Sent(
                        tenant,
                        connection,
                        packet_of(connection, macs, next(numbers)),
                        (wire(tenant, source), wire(tenant, target)),
                        policy_model.is_allowed(tenant.policies, connection),
                    )


def packet_of(connection: Connection, macs: list[str], number: int) -> Packet:
    """The packet that opens a connection."""
    version = connection.version
    protocol, kind = {
        "TCP": (TCP, SYN), "UDP": (UDP, 0), "ICMP": (ICMP, 8) if version == 4 else (ICMPV6, 128)
    }[connection.protocol]  # fmt: skip
    addresses = (connection.source.address(version), connection.target.address(version))
    return Packet(*macs, *addresses, protocol, number, connection.port, kind)


def wire(tenant: Tenant, index: int) -> str:
    return interface_of(tenant.namespaces[PLACES[index][0]], f"w{index}")


class Wires:
    """The interfaces of all workloads on the host."""

    def __init__(self, machine, plan: dict, tenants: list[Tenant]) -> None:
        self.machine = machine
        # What each asks for: OVN answers for other workloads, whatever policies say.
        self._questions: dict[str, Question] = {}
        for tenant in tenants:
            for index, other in zip(LOCAL, LOCAL[1:] + LOCAL[:1], strict=True):
                own, its = (tenant.interface(plan, one) for one in (index, other))
                ends = [one["addresses"][0].partition("/")[0] for one in (own, its)]
                self._questions[wire(tenant, index)] = Question(own["mac"], *ends)
        self._before = {interface: self._answers(interface) for interface in self._questions}
        self._seen = {interface: self._numbered(interface) for interface in self._questions}

    def send(self, packets) -> None:
        """Send packets of (interface, packet), and wait until all are handled.

        An interface's packets are handled one after the other, and the last one asks for an address.
        """
        coming: dict[str, list[bytes]] = {interface: [] for interface in self._questions}
        for interface, packet in packets:
            coming[interface].append(packet.encode())
        for interface, frames in coming.items():
            before = self._answers(interface)
            if frames:
                self.machine.receive_all(interface, frames)
            # For IPv6 ovn-controller answers, which gets a limited number of questions a second.
            self.machine.send_until(
                lambda interface=interface, before=before: self._answers(interface) > before,
                interface, self._questions[interface].encode(), f"an answer at {interface}",
            )  # fmt: skip

    def received(self) -> dict[tuple[str, int], Packet]:
        """What has arrived since the beginning, by interface and number."""
        return {
            (interface, number): packet
            for interface in self._questions
            for number, packet in self._numbered(interface).items()
            if number not in self._seen[interface]
        }

    def _answers(self, interface: str) -> int:
        asked = self._questions[interface].asked
        return sum(isinstance(one, Answer) and one.address == asked for one in self.machine.sent(interface))

    def _numbered(self, interface: str) -> dict[int, Packet]:
        """Packets by their number, which is the target port of a reply."""
        found = [one for one in self.machine.sent(interface) if isinstance(one, Packet)]
        return {max(one.source_port, one.target_port): one for one in found if one.protocol in (TCP, UDP, ICMP, ICMPV6)}
