# SPDX-License-Identifier: Apache-2.0
"""Announcements on the provider network: only the default network's gateway router announces the node's address."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

from tests.live.conftest import wait_for
from tests.live.gateway.conftest import BRIDGE, MAC, UPLINK
from tests.live.gateway.external_host import MANIFESTS, NAMES, NODE
from tests.live.gateway.packets import Question
from tests.pipeline import namespace, workload

MASQUERADE = ip_network("169.254.0.0/17")
DEFAULT_NETWORK_ONLY = namespace("plain", primary=False) + workload("plain", "a", "node1")


def dropped_all(machine) -> bool:
    """Whether announcements of the node's address and of masquerade addresses have been dropped."""
    lines = machine.run(["ovs-ofctl", "-O", "OpenFlow15", "dump-flows", BRIDGE]).splitlines()
    flows = [line for line in lines if "cookie=0x305" in line and "actions=drop" in line]
    return len(flows) == 2 and all(int(re.search(r"n_packets=(\d+)", line)[1]) for line in flows)


def with_masquerade_address(machine, since: int) -> list[Question]:
    """Return the ARP requests of or for a masquerade address, from a position in what was sent."""
    asked = [one for one in machine.sent(UPLINK)[since:] if isinstance(one, Question) and "." in one.asked]
    return [one for one in asked if ip_address(one.source) in MASQUERADE or ip_address(one.asked) in MASQUERADE]


def ports(machine) -> set[str]:
    """Return the patch ports of the provider bridge."""
    listed = machine.tools.run("ovs-vsctl", f"--db={machine.vswitch.remote}", "list-ports", BRIDGE)
    return {name for name in listed.split() if name.startswith("patch-")}


def test_gateway_routers_of_user_defined_networks_announce_nothing(host):
    machine, _zone = host(MANIFESTS)
    # Announcements from before the flows were installed have been sent.
    before = len(machine.sent(UPLINK))
    # ovn-controller goes on announcing for a minute; those that are counted here would have been sent.
    machine.exchange(lambda: dropped_all(machine), "announcements of all gateway routers")
    assert not with_masquerade_address(machine, before)


def test_a_new_network_s_gateway_router_announces_nothing_before_its_flows_are_written(host):
    machine, zone = host(DEFAULT_NETWORK_ONLY)
    machine.exchange(lambda: Question(MAC, NODE[4], NODE[4]) in machine.sent(UPLINK), "the node's announcement")
    before = len(machine.sent(UPLINK))
    zone.apply(MANIFESTS)
    wait_for(lambda: len(ports(machine)) == len(NAMES), "the patch ports of the new networks")
    wait_for(lambda: dropped_all(machine), "announcements of the new networks' gateway routers")
    assert not with_masquerade_address(machine, before)


def test_the_default_network_s_gateway_router_announces_the_node(host):
    machine, _zone = host(MANIFESTS)
    machine.exchange(lambda: Question(MAC, NODE[4], NODE[4]) in machine.sent(UPLINK), "the node's announcement")
