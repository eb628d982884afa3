# SPDX-License-Identifier: Apache-2.0
"""Announcements of routers to a migrated virtual machine, in every stage of the Layer2 upgrade."""

from __future__ import annotations

import ipaddress

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.announcement import render_announcements
from ansible_collections.heddle.ovn.plugins.module_utils.render.egress.announcements import (
    render_egress_announcements,
)
from tests.live.gateway.packets import Answer, tagged
from tests.pipeline import layer2, namespace, plan_of, upgrade_stage, with_gateways, workload

TEXT = (
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + workload("red", "vm", "node1, kind: vm")
    + workload("red", "web", "node3")
)
# Of the transit router, and of the three nodes' gateway routers.
SHARED, ONE, TWO, THREE = "0a:58:0a:00:00:01", "0a:58:64:41:00:02", "0a:58:64:41:00:03", "0a:58:64:41:00:04"


def reported(plan, node="node1"):
    """Router's MAC -> lifetime; the IPv4 gateway's under its address."""
    return {
        one.router if one.lifetime is None else one.mac: one.mac if one.lifetime is None else one.lifetime
        for one in render_announcements(plan, node, "red/vm")
    }


@pytest.mark.parametrize(
    ("upgraded", "own"),
    [((), ONE), (("node3",), ONE), (("node1",), SHARED), (("node1", "node2", "node3"), SHARED)],
)
def test_announcement_of_own_router_and_withdrawal_of_others(upgraded, own):
    expected = {"10.0.0.1": own} | dict.fromkeys((SHARED, ONE, TWO, THREE), 0) | {own: 65535}
    plan = upgrade_stage(TEXT, *upgraded)
    assert reported(plan) == expected
    # Its own comes first, so that there is no moment without a default route.
    assert [one.mac == own for one in render_announcements(plan, "node1", "red/vm")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_no_announcement_after_the_clean_up():
    assert reported(upgrade_stage(TEXT, "node1", "node2", "node3", done=True)) == {}


def test_the_arp_frame():
    frame = render_announcements(upgrade_stage(TEXT), "node1", "red/vm")[0].frame.hex()
    mac, address = ONE.replace(":", ""), "0a000001"
    assert frame == f"{'ff' * 6}{mac}0806 0001 0800 06 04 0001 {mac}{address}{'00' * 6}{address}".replace(" ", "")


def test_the_advertisement_frames():
    own, *_others, ended = (
        one for one in render_announcements(upgrade_stage(TEXT), "node1", "red/vm") if one.lifetime is not None
    )
    for one, flags, lifetime in ((ended, 0x80, 0), (own, 0x98, 65535)):
        frame = one.frame
        assert frame[:14].hex() == "0a580a000003" + one.mac.replace(":", "") + "86dd"
        packet, message = frame[14:54], frame[54:]
        assert (packet[6], packet[7], int.from_bytes(packet[4:6], "big")) == (58, 255, len(message))
        assert str(ipaddress.IPv6Address(packet[8:24])) == one.router
        assert str(ipaddress.IPv6Address(packet[24:40])) == "fd00:10::3"
        assert (message[0], message[5], int.from_bytes(message[6:8], "big")) == (134, flags, lifetime)
        assert message[16:].hex() == "0101" + one.mac.replace(":", "")
        whole = packet[8:40] + len(message).to_bytes(4, "big") + bytes([0, 0, 0, 58]) + message
        total = sum(int.from_bytes(whole[place : place + 2], "big") for place in range(0, len(whole), 2))
        assert total % 0xFFFF == 0


@pytest.mark.parametrize("vlan", [None, 100])
@pytest.mark.parametrize("address", ["192.0.2.100", "2001:db8::100"])
def test_egress_address_is_announced_to_all(address, vlan):
    plan = plan_of(TEXT, hosts=with_gateways("shared", vlan=vlan))
    [frame] = render_egress_announcements(plan, "node1", [address])
    expected = Answer(address, "02:00:00:00:00:01").broadcast()
    assert frame == (tagged(expected, vlan) if vlan else expected)
