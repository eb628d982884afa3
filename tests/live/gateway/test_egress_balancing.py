# SPDX-License-Identifier: Apache-2.0
"""An EgressIP with two addresses, each of which another host holds: connections are distributed over both hosts.

node1 is the host of the workloads. What leaves by the other holder is seen as it goes into the tunnel; there it is the
packet of a workload that the holder marks and translates as those of its own.

They are TCP: Open vSwitch's userspace datapath leaves ports of UDP out of the hash by which it chooses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import product

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import mac_of_address
from tests.live.gateway.conftest import BRIDGE, UPLINK
from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, NAMES, request_of
from tests.live.gateway.packets import SYN, TCP, UDP, Packet, Question
from tests.matrix import pairwise

# Of Layer2, Layer3 and the default network; the others have no EgressIP.
BALANCED = ("flat", "deep", "plain")
ADDRESSES = {
    4: {"flat": ["192.0.2.100", "192.0.2.110"], "deep": ["192.0.2.101", "192.0.2.111"],
        "plain": ["192.0.2.102", "192.0.2.112"]},
    6: {"flat": ["2001:db8::100", "2001:db8::110"], "deep": ["2001:db8::101", "2001:db8::111"],
        "plain": ["2001:db8::102", "2001:db8::112"]},
}  # fmt: skip
# By the number of those that are not node1.
HOLDERS = {1: ("node1", "node2"), 2: ("node2", "node3")}
ENDS = {"node2": "198.18.1.12", "node3": "198.18.1.13"}
# That all of them have one of two addresses has a probability of 2 ** -23.
CONNECTIONS, PACKETS = 24, 2


def balanced(name: str, addresses: list[str]) -> str:
    spec = {"egressIPs": addresses, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    document = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP", "metadata": {"name": name}, "spec": spec}
    return f"---\n{json.dumps(document)}\n"


def balanced_host(host, family: int, mode: str, holders: tuple[str, ...]) -> tuple:
    text = MANIFESTS + "".join(balanced(name, ADDRESSES[family][name]) for name in BALANCED)
    return host(text, mode, egress_hosts=holders)


def answer_neighbours(zone, machine, copies: dict[str, str]) -> None:
    """Write what ovn-controller learns when another host answers for its gateway router (Layer2 asks for it)."""
    asked = {
        (one.source_mac, one.asked)
        for interface in copies.values()
        for one in machine.sent(interface)
        if isinstance(one, Question)
    }
    known = {(row["mac"], row["ip"]) for row in zone.southbound.rows("MAC_Binding", "mac", "ip")}
    for mac, address in asked:
        if (mac_of_address(address), address) in known:
            continue
        ports = zone.northbound.rows("Logical_Router_Port", "name", "mac", "networks")
        name = next(row["name"] for row in ports if row["mac"] == mac and not row["name"].startswith("rtoe-"))
        bindings = zone.southbound.rows("Port_Binding", "logical_port", "datapath")
        datapath = next(row["datapath"] for row in bindings if row["logical_port"] == name)
        row = {"logical_port": name, "ip": address, "mac": mac_of_address(address), "datapath": datapath}
        with zone.southbound.client() as client:
            client.transact("OVN_Southbound", [{"op": "insert", "table": "MAC_Binding", "row": row}])


@dataclass(frozen=True)
class Place:
    """Where a packet left: the other end of a tunnel, "" for the uplink; and its source address."""

    end: str
    source: str


def places(machine, copies: dict[str, str], target: str) -> dict[int, list[Place]]:
    """Where packets to an external host left, by the port that they are for, of which each connection has its own."""
    found: dict[int, list[Place]] = {}
    for end, interface in {"": UPLINK, **copies}.items():
        for one in machine.sent(interface):
            if isinstance(one, Packet) and one.target == target:
                found.setdefault(one.target_port, []).append(Place(end, one.source))
    return found


def connections(zone, name: str, family: int, first: int = 10000) -> dict[int, Packet]:
    """The first packets of connections of a workload, by the port that they are for."""
    request = replace(request_of(zone, name, UDP, family), protocol=TCP, kind=SYN, payload=b"")
    first += 1000 * NAMES.index(name)
    return {number: replace(request, target_port=number) for number in range(first, first + CONNECTIONS)}


@pytest.mark.parametrize(
    ("family", "mode", "others"), pairwise(product([4, 6], ["shared", "local"], [1, 2])), scope="module"
)
def test_connections_are_distributed_over_the_holders(shared_host, family, mode, others):
    """Another host holds one of the addresses, or each of them."""
    machine, zone = balanced_host(shared_host, family, mode, HOLDERS[others])
    copies = machine.mirror_tunnels()
    assert set(ENDS.values()) <= copies.keys()
    ends = {ENDS.get(one, "") for one in HOLDERS[others]}
    for name in BALANCED:
        requests = connections(zone, name, family)

        def left(requests=requests) -> dict[int, list[Place]]:
            answer_neighbours(zone, machine, copies)
            found = places(machine, copies, EXTERNAL[family])
            return {number: those for number, those in found.items() if number in requests}

        for count in range(1, PACKETS + 1):
            # While a neighbour is looked for, ovn-controller keeps four packets and no more.
            for number, packet in requests.items():
                machine.receive(f"if-{name}", packet.encode())
                machine.exchange(
                    lambda number=number, count=count, left=left: len(left().get(number, ())) == count,
                    f"packet {count} of {name} to port {number}",
                )
        # A connection keeps its host and its address.
        chosen = {number: set(those) for number, those in left().items()}
        assert {len(those) for those in chosen.values()} == {1}, chosen
        seen = {one for those in chosen.values() for one in those}
        assert {one.end for one in seen} == ends, name
        assert {one.source for one in seen if one.end} == {next(iter(requests.values())).source}
        addresses = zone.plan["egress_ips"][name]["addresses"]
        here = {one["address"] for one in addresses if one["node"] == "node1"}
        assert {one.source for one in seen if not one.end} == here
    assert not [one for one in machine.sent(BRIDGE) if isinstance(one, Packet) and one.target == EXTERNAL[family]]


@pytest.mark.parametrize(("family", "mode", "others"), [(4, "shared", 1), (6, "shared", 1)], scope="module")
def test_replies_come_back_to_connections_that_leave_here(shared_host, family, mode, others):
    machine, zone = balanced_host(shared_host, family, mode, HOLDERS[others])
    copies = machine.mirror_tunnels()
    for name in BALANCED:
        requests = connections(zone, name, family, 20000)
        for number, packet in requests.items():
            machine.receive(f"if-{name}", packet.encode())
            machine.exchange(
                lambda number=number: (
                    answer_neighbours(zone, machine, copies) or number in places(machine, copies, EXTERNAL[family])
                ),
                f"{name} to {number}",
            )
        here = {
            one.target_port: one
            for one in machine.sent(UPLINK)
            if isinstance(one, Packet) and one.target_port in requests
        }
        assert 0 < len(here) < CONNECTIONS
        for packet in here.values():
            machine.receive(UPLINK, packet.answer().encode())

        def back(name=name):
            sent = [one for one in machine.sent(f"if-{name}") if isinstance(one, Packet)]
            return {one.source_port: one for one in sent if one.source == EXTERNAL[family]}

        machine.exchange(lambda here=here, back=back: back().keys() == here.keys(), f"the replies to {name}")
        own = next(iter(requests.values()))
        assert {(one.target, one.target_port) for one in back().values()} == {(own.source, own.source_port)}
