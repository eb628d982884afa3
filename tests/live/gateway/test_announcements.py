# SPDX-License-Identifier: Apache-2.0
"""Announcements on the provider network: only the default network's gateway router announces the node's address."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

from tests.live.gateway.conftest import BRIDGE, MAC, UPLINK
from tests.live.gateway.packets import Question
from tests.live.gateway.test_north_south import MANIFESTS, NAMES, NODE

MASQUERADE = ip_network("169.254.0.0/17")


def dropped(machine) -> list[int]:
    """Return how many announcements each flow that is for them has dropped."""
    lines = machine.run(["ovs-ofctl", "-O", "OpenFlow15", "dump-flows", BRIDGE]).splitlines()
    return [int(re.search(r"n_packets=(\d+)", line)[1]) for line in lines if "cookie=0x305" in line]


def test_gateway_routers_of_user_defined_networks_announce_nothing(host):
    machine, _zone = host(MANIFESTS)
    # Announcements from before the flows were installed have been sent.
    before = len(machine.sent(UPLINK))
    # ovn-controller goes on announcing for a minute; those that are counted here would have been sent.
    machine.exchange(lambda: all(dropped(machine)), "announcements of all gateway routers")
    assert len(dropped(machine)) == 2 * len([name for name in NAMES if name != "plain"])
    asked = [one for one in machine.sent(UPLINK)[before:] if isinstance(one, Question) and "." in one.asked]
    assert not [one for one in asked if ip_address(one.source) in MASQUERADE or ip_address(one.asked) in MASQUERADE]


def test_the_default_network_s_gateway_router_announces_the_node(host):
    machine, _zone = host(MANIFESTS)
    machine.exchange(lambda: Question(MAC, NODE[4], NODE[4]) in machine.sent(UPLINK), "the node's announcement")
