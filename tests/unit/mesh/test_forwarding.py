# SPDX-License-Identifier: Apache-2.0
"""Frames between simulated hosts: where each arrives and how often, which flows it makes, and when they go."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.mesh import forwarding, heartbeat
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.flows import Expiry
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.forwarding import Gateway, Key, Tunnel
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.peers import vni
from tests.unit.mesh.simulation import BROADCAST, Hosts, Mesh


def hosts(links, count=3):
    mesh = Mesh(count, Random(1))
    names = list(mesh.peers)
    for one, other in links:
        mesh.connect(names[one], names[other])
    mesh.spread()
    return Hosts(mesh), names


CHAIN = list(pairwise(range(3)))
FULL = list(combinations(range(3), 2))
RING = [*pairwise(range(6)), (5, 0)]


@pytest.mark.parametrize(("links", "count"), [(CHAIN, 3), (FULL, 3), (RING, 6), (list(combinations(range(6), 2)), 6)])
def test_broadcast_reaches_each_host_once_and_never_its_source(links, count):
    net, names = hosts(links, count)
    for number, name in enumerate(names):
        for _ in range(2):
            delivered = net.send(name, net.mac(number), BROADCAST)
            assert delivered == {other: 1 for other in names if other != name}
    assert not net.reasons


@pytest.mark.parametrize("links", [CHAIN, FULL])
def test_unicast_after_learning_takes_one_path_and_then_flows_only(links):
    net, names = hosts(links)
    for number, name in enumerate(names):
        net.send(name, net.mac(number), BROADCAST)
    for _ in range(2):
        assert net.send(names[0], net.mac(0), net.mac(2)) == {names[2]: 1}
        misses = net.misses.copy()
    assert net.misses == misses
    assert net.send(names[0], net.mac(0), net.mac(2)) == {names[2]: 1}
    assert net.misses == misses


def test_unknown_unicast_floods_without_a_flow():
    net, names = hosts(FULL)
    assert net.send(names[0], net.mac(0), net.mac(2)) == {names[1]: 1, names[2]: 1}
    assert not net.flows[names[0]]


def test_relay_keeps_both_short_ids():
    net, names = hosts(CHAIN)
    for number, name in enumerate(names):
        net.send(name, net.mac(number), BROADCAST)
    net.send(names[0], net.mac(0), net.mac(2))
    mesh = net.mesh
    ids = [mesh.peers[name].short_id(name) for name in names]
    (decision,) = [
        decision
        for key, decision in net.flows[names[1]].items()
        if (key.source, key.destination) == (net.mac(0), net.mac(2))
    ]
    assert decision.tunnels == (Tunnel(vni(ids[0], ids[2]), net.address(names[1]), net.address(names[2])),)


def test_frame_does_not_return_to_the_peer_that_it_came_from():
    net, names = hosts(CHAIN)
    ids = {name: net.mesh.peers[name].short_id(name) for name in names}
    # A frame for the first host that the first host itself sent to the second one, with the third one's id as source.
    key = Key(
        None,
        Tunnel(vni(ids[names[2]], ids[names[0]]), net.address(names[0]), net.address(names[1])),
        net.mac(2),
        net.mac(0),
    )
    decision = net.bridges[names[1]].decide(key, 0)
    assert (decision.ports, decision.tunnels, decision.flow) == ((), (), False)
    assert "would return" in decision.reason


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (Key("port", None, "01:00:00:00:00:01", BROADCAST), "group address"),
        (Key("port", None, "0a:00:00:00:00:00", "01:80:c2:00:00:00"), "spanning tree"),
        (Key("port", None, "0a:00:00:00:00:00", "0a:00:00:00:00:00"), "port that the frame came from"),
        (Key(None, Tunnel(1, "198.51.100.9", "192.0.2.0"), "0a:00:00:00:00:01", BROADCAST), "no neighbour"),
    ],
)
def test_frame_that_is_dropped(key, reason):
    net, names = hosts(FULL)
    decision = net.bridges[names[0]].decide(key, 0)
    assert not decision.ports
    assert not decision.tunnels
    assert reason in decision.reason


def test_short_id_of_no_peer_makes_no_flow():
    net, names = hosts(FULL)
    ids = {net.mesh.peers[name].short_id(name) for name in names}
    free = next(number for number in range(4096) if number not in ids)
    own = net.mesh.peers[names[0]].short_id(names[0])
    key = Key(
        None, Tunnel(vni(free, own), net.address(names[1]), net.address(names[0])), "0a:00:00:00:00:01", BROADCAST
    )
    decision = net.bridges[names[0]].decide(key, 0)
    assert (decision.ports, decision.tunnels, decision.flow) == ((), (), False)


def test_workload_that_moved_is_reached_at_its_new_host_from_its_first_frame():
    net, names = hosts(FULL)
    for number, name in enumerate(names):
        net.send(name, net.mac(number), BROADCAST)
    assert net.send(names[2], net.mac(2), net.mac(0)) == {names[0]: 1}
    net.bridges[names[0]].set_ports({})
    net.bridges[names[1]].set_ports({"port": net.mac(1), "moved": net.mac(0)})
    # Without a flow of before the move: the announcement of its address goes to all.
    assert net.send(names[1], net.mac(0), BROADCAST, port="moved") == {names[1]: 1, names[2]: 1}
    assert net.send(names[2], net.mac(2), net.mac(0)) == {names[1]: 1}


def test_frame_that_came_back_over_another_link_does_not_move_an_address():
    net, names = hosts(FULL)
    net.send(names[0], net.mac(0), BROADCAST)
    net.bridges[names[1]].set_ports({"port": net.mac(1), "other": "0a:00:00:00:01:00"})
    assert net.send(names[1], net.mac(0), BROADCAST, port="other") == {}
    assert net.bridges[names[1]].where(net.mac(0)) == ("peer", names[0])


def test_link_that_ends_moves_traffic_to_the_relay_and_flows_go():
    net, names = hosts(FULL)
    for number, name in enumerate(names):
        net.send(name, net.mac(number), BROADCAST)
    assert net.send(names[0], net.mac(0), net.mac(2)) == {names[2]: 1}
    net.mesh.disconnect(names[0], names[2])
    net.mesh.spread()
    net.refresh()
    assert net.send(names[0], net.mac(0), net.mac(2)) == {names[2]: 1}
    assert net.send(names[0], net.mac(0), BROADCAST) == {names[1]: 1, names[2]: 1}
    net.mesh.disconnect(names[0], names[1])
    net.mesh.spread()
    net.refresh()
    assert net.send(names[0], net.mac(0), net.mac(2)) == {}
    assert any("no route" in reason for reason in net.reasons)


def test_decision_before_a_change_is_of_an_earlier_generation():
    net, names = hosts(FULL)
    bridge = net.bridges[names[0]]
    decision = bridge.decide(Key("port", None, net.mac(0), BROADCAST), 0)
    assert decision.flow
    assert decision.generation == bridge.generation
    for change in (
        lambda: bridge.set_ports({"port": net.mac(0), "second": "0a:00:00:00:01:01"}),
        lambda: bridge.set_remotes({}),
        lambda: net.mesh.disconnect(names[0], names[1]),
    ):
        before = bridge.generation
        change()
        assert bridge.generation > before


def test_broadcast_that_a_neighbour_cannot_get_stays_no_flow():
    net, names = hosts(FULL)
    net.bridges[names[0]].set_remotes({names[1]: net.address(names[1])})
    decision = net.bridges[names[0]].decide(Key("port", None, net.mac(0), BROADCAST), 0)
    assert len(decision.tunnels) == 1
    assert not decision.flow


def test_addresses_expire_after_ten_minutes_without_a_frame():
    net, names = hosts(FULL)
    net.send(names[0], net.mac(0), BROADCAST)
    bridge = net.bridges[names[1]]
    bridge.expire(599)
    assert bridge.where(net.mac(0)) == ("peer", names[0])
    bridge.expire(600)
    assert bridge.where(net.mac(0)) is None


def test_a_port_has_a_limit_of_addresses_besides_its_own(monkeypatch):
    monkeypatch.setattr(forwarding, "MOST_MACS", 3)
    net, names = hosts(FULL)
    near, far = net.bridges[names[0]], net.bridges[names[1]]
    near.set_ports({"port": net.mac(0), "other": "0a:00:00:00:01:00"})
    spoofed = [f"0a:00:00:00:02:{number:02x}" for number in range(5)]
    for source in spoofed:
        net.send(names[0], source, BROADCAST)
    assert net.reasons == ["port port sends from more than 3 addresses"] * 2
    assert [near.where(source) for source in spoofed] == [("port", "port")] * 3 + [None] * 2
    assert [far.where(source) for source in spoofed] == [("peer", names[0])] * 3 + [None] * 2
    # Its own address, known ones, and other ports are as before.
    for source, port in ((net.mac(0), "port"), (spoofed[0], "port"), (spoofed[4], "other"), (spoofed[1], "other")):
        net.send(names[0], source, BROADCAST, now=300, port=port)
        assert near.where(source) == ("port", port)
    assert len(net.reasons) == 2
    # An address that has moved, or was not seen for long, makes room.
    for source in spoofed[3:]:
        near.expire(600)
        net.send(names[0], source, BROADCAST, now=600)
        assert near.where(source) == ("port", "port")
    assert len(net.reasons) == 2


def test_reasons_have_no_address_of_a_frame():
    net, names = hosts(FULL)
    for number in range(20):
        source = f"0a:00:00:00:02:{number:02x}"
        net.send(names[1], source, BROADCAST)
        net.send(names[0], source, BROADCAST)
    near = net.bridges[names[0]]
    near.set_gateway(Gateway("0a:00:00:00:03:00", "gate"))
    for number in range(20):
        net.send(names[0], f"0a:00:00:00:04:{number:02x}", BROADCAST, port="gate")
        net.send(names[0], "0a:00:00:00:03:00", f"0a:00:00:00:02:{number:02x}", port="gate")
    assert len(net.reasons) == 60
    assert len({*net.reasons}) == 3


def test_flow_without_a_packet_in_an_interval_expires():
    expiry = Expiry()
    assert expiry.sweep({"a": 3, "b": 0}) == ({"b"}, {"a"})
    assert expiry.sweep({"a": 4, "c": 1}) == (set(), {"a", "c"})
    assert expiry.sweep({"a": 4, "c": 2}) == ({"a"}, {"c"})
    # Made again: the counter began anew.
    assert expiry.sweep({"a": 1, "c": 1}) == (set(), {"a", "c"})


def test_heartbeat_has_the_size_of_the_largest_frame():
    frame = heartbeat.frame(0x1122334455667788, 1376, 5)
    assert len(frame) == 14 + 1376
    assert frame[:28].hex() == "00" * 14 + "1122334455667788" + "056e" + "00000005"
    assert heartbeat.number_of(frame) == 5
    assert heartbeat.is_heartbeat(frame)
    assert not heartbeat.is_heartbeat(b"\x02" + frame[1:])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda frame: frame, None),
        (lambda frame: frame[:-1], "1389 of 1390 bytes"),
        (lambda frame: frame + b"\0", "1391 of 1390 bytes"),
        (lambda frame: frame[:27], "27 bytes; at least 28 are required"),
        (lambda frame: frame[:14] + b"\1" * 8 + frame[22:], "of another connection"),
    ],
)
def test_heartbeat_that_is_not_valid(change, expected):
    assert heartbeat.problem(change(heartbeat.frame(7, 1376, 1)), 7) == expected


def test_heartbeats_have_numbers_and_measure_the_round_trip():
    beats = heartbeat.Heartbeats()
    for number, now in ((1, 0), (2, 0.2), (3, 0.4)):
        beats.sent(number, now)
    beats.acknowledged(2, 0.25)
    assert (beats.latest, beats.confirmed, round(beats.rtt, 3), beats.lost) == (2, 0.2, 0.05, 1)
    # One that was lost, one that was never sent, and the same one again.
    for number in (1, 9, 2):
        beats.acknowledged(number, 0.3)
    assert (beats.confirmed, round(beats.rtt, 3)) == (0.2, 0.05)
    # Without any acknowledgement a bounded number is kept.
    for number in range(4, 1004):
        beats.sent(number, number)
    assert beats.lost > 900


def test_decision_over_the_fallback_is_no_flow():
    net, names = hosts(CHAIN)
    for number, name in enumerate(names):
        net.send(name, net.mac(number), BROADCAST)
    relay = net.bridges[names[1]]
    remotes = {name: net.address(name) for name in (names[0], names[2])}
    before = relay.generation
    relay.set_remotes(remotes, frozenset({names[2]}))
    assert relay.generation > before
    to_third = relay.decide(Key("port", None, net.mac(1), net.mac(2)), 0)
    assert (to_third.tunnels, to_third.flow) == ((), False)
    assert [tunnel.destination for tunnel in to_third.fallbacks] == [net.address(names[2])]
    to_first = relay.decide(Key("port", None, net.mac(1), net.mac(0)), 0)
    assert (len(to_first.tunnels), to_first.fallbacks, to_first.flow) == (1, (), True)
    to_all = relay.decide(Key("port", None, net.mac(1), BROADCAST), 0)
    assert (len(to_all.tunnels), len(to_all.fallbacks), to_all.flow) == (1, 1, False)
