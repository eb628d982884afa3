# SPDX-License-Identifier: Apache-2.0
"""Local gateway mode up to the host's kernel, over the management ports with masquerade addresses."""

from __future__ import annotations

import pytest

from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, NAMES, request_of
from tests.live.gateway.packets import UDP, Answer, Packet, Question


@pytest.mark.parametrize("family", [4, 6])
def test_each_network_has_its_own_source_address_on_the_host(shared_host, family):
    machine, zone = shared_host(MANIFESTS, "local")
    requests = {name: request_of(zone, name, UDP, family) for name in NAMES}
    numbers = {name: zone.plan["networks"][f"{name}_net" if name != "plain" else "default"]["id"] for name in NAMES}
    for name, packet in requests.items():
        machine.receive(f"if-{name}", packet.encode())

    def arrived(name):
        sent = machine.sent(f"ovn-k8s-mp{numbers[name]}")
        return next((packet for packet in sent if isinstance(packet, Packet) and packet.payload == name.encode()), None)

    machine.exchange(lambda: all(map(arrived, NAMES)), "what the workloads sent")
    for name, packet in requests.items():
        seen, port = arrived(name), f"ovn-k8s-mp{numbers[name]}"
        number = 10 + 2 * numbers[name]
        own = {4: f"169.254.0.{number}", 6: f"fd69::{number:x}"}[family]
        assert seen.source == (packet.source if name == "plain" else own)
        assert seen.target == EXTERNAL[family]
        if name != "plain":
            # The host looks for the masquerade address on the management port itself (route without a next hop).
            management = next(item for item in _management(zone, name, numbers[name]) if (":" in item) == (family == 6))
            machine.receive(port, Question(seen.target_mac, management, own).encode())
            reported = lambda port=port, own=own: [  # noqa: E731
                entry for entry in machine.sent(port) if isinstance(entry, Answer) and entry.address == own
            ]
            machine.exchange(reported, f"who has {own}")
            assert {entry.mac for entry in reported()} == {packet.target_mac}
        machine.receive(port, seen.answer().encode())
        back = lambda name=name: [  # noqa: E731
            entry for entry in machine.sent(f"if-{name}")
            if isinstance(entry, Packet) and entry.source == EXTERNAL[family]
        ]  # fmt: skip
        machine.exchange(back, f"the reply to {name}")
        [answer] = back()
        assert (answer.target, answer.target_port, answer.payload) == (packet.source, 5000, name.encode())


def _management(zone, name, _number):
    rows = zone.northbound.rows("Logical_Switch_Port", "name", "addresses")
    addresses = next(row["addresses"] for row in rows if row["name"] == f"k8s-{name}_net_node1")
    return addresses.split()[1:]
