# SPDX-License-Identifier: Apache-2.0
"""What neighbours broadcast on the provider network reaches all gateway routers when it is new, and only then."""

from __future__ import annotations

import re

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway import neighbour_flows
from tests.live.conftest import wait_for
from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC, NEXT_HOPS, UPLINK
from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, NAMES, NODE, request_of
from tests.live.gateway.packets import ICMP, ICMPV6, Answer, Packet, Question
from tests.pipeline import EVERYWHERE, layer2, namespace, workload

OTHER_MAC = "0a:00:00:00:00:fd"


def handled(machine) -> dict[str, int]:
    """Return how many broadcasts were known and how many new."""
    lines = machine.run(["ovs-ofctl", "-O", "OpenFlow15", "dump-flows", BRIDGE]).splitlines()
    found = {"known": 0, "new": 0}
    for line in lines:
        if f"table={neighbour_flows.NEW_TABLE}," in line:
            found["new" if "learn(" in line else "known"] += int(re.search(r"n_packets=(\d+)", line)[1])
    return found


def bindings(zone, address: str) -> dict[str, str]:
    """Return the MAC that each gateway router has for an address, by router port."""
    rows = zone.southbound.rows("MAC_Binding", "ip", "mac", "logical_port")
    return {row["logical_port"]: row["mac"] for row in rows if row["ip"] == address}


@pytest.mark.parametrize("group", [50, 1])
@pytest.mark.parametrize("family", [4, 6])
def test_a_next_hop_with_a_new_mac_reaches_every_router(host, family, group, monkeypatch):
    monkeypatch.setattr(neighbour_flows, "GROUP_SIZE", group)
    # All that is measured happens before a neighbour is forgotten, on a slow machine as well.
    monkeypatch.setattr(neighbour_flows, "KNOWN_SECONDS", 3600)
    machine, zone = host(MANIFESTS)
    next_hop = NEXT_HOPS[0 if family == 4 else 1]
    for name in NAMES:
        machine.receive(f"if-{name}", request_of(zone, name, ICMP if family == 4 else ICMPV6, family).encode())
    sent = lambda: {  # noqa: E731
        packet.payload
        for packet in machine.sent(UPLINK)
        if isinstance(packet, Packet) and packet.target == EXTERNAL[family]
    }
    machine.exchange(lambda: len(sent()) == len(NAMES), "what the workloads sent")
    # A router sends as soon as it has learned the next hop, and the row may come a little later.
    wait_for(
        lambda: list(bindings(zone, next_hop).values()) == [NEXT_HOP_MAC] * len(NAMES),
        "the next hop's MAC on all routers",
    )
    routers = set(bindings(zone, next_hop))

    def announce(mac: str) -> None:
        """Send an announcement until all routers have it.

        While they learn each other's neighbours, the limit of packets for ovn-controller may drop it. So what the
        bridge knows is forgotten before it is sent again, as happens by itself after `KNOWN_SECONDS`.
        """

        def send() -> None:
            machine.run(["ovs-ofctl", "-O", "OpenFlow15", "del-flows", BRIDGE, f"table={neighbour_flows.KNOWN_TABLE}"])
            machine.receive(UPLINK, Answer(next_hop, mac).broadcast())

        machine.repeat_until(lambda: set(bindings(zone, next_hop).values()) == {mac}, send, f"{mac} on all routers")

    announce(OTHER_MAC)
    assert set(bindings(zone, next_hop)) == routers

    def repeated() -> bool:
        machine.receive(UPLINK, Answer(next_hop, OTHER_MAC).broadcast())
        return handled(machine)["known"] >= 2

    # The datapath follows the flow that the announcement added only after a while.
    wait_for(repeated, "a repeated announcement that is known")
    again = machine.apply(zone.plan)
    assert not again.changed
    assert not again.foreign

    announce(NEXT_HOP_MAC)


def test_one_reply_reaches_the_routers_of_many_networks(host):
    """Each router hands it to ovn-controller, at a rate that is limited for all of them together."""
    names = [f"t{number}" for number in range(60)]
    networks = "".join(namespace(name) + layer2(name, "net", "10.50.0.0/24") for name in names)
    machine, zone = host(networks + workload(names[0], "a", "node1"), settings=EVERYWHERE)
    routers = {
        row["name"] for row in zone.northbound.rows("Logical_Router_Port", "name") if row["name"].startswith("rtoe-")
    }
    assert len(routers) == len(names) + 1
    machine.wait_for_limits()
    machine.receive(UPLINK, Question(MAC, NODE[4], NEXT_HOPS[0]).answer(NEXT_HOP_MAC))
    wait_for(lambda: set(bindings(zone, NEXT_HOPS[0])) == routers, "the next hop's MAC on all routers")
