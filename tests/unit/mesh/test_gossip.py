# SPDX-License-Identifier: Apache-2.0
"""Many peers with lost messages, partitions, merges and restarts agree on records, short ids and routes."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.mesh import codec
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.gossip import Gossip
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.peers import Peer, short_ids_of, vni
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.short_ids import ShortIds
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.topology import Topology
from tests.unit.mesh.simulation import Mesh, name_of


class FewIds(Random):
    """Chooses short ids among 64, so that 50 peers collide often."""

    def randrange(self, *arguments):
        return super().randrange(*arguments) % 64


def connected(mesh, degree=3):
    """A random tree with further links."""
    names = list(mesh.peers)
    for number in range(1, len(names)):
        mesh.connect(names[number], names[mesh.random.randrange(number)])
    for name in names:
        while sum(name in link for link in mesh.links) < degree:
            other = mesh.random.choice(names)
            if other != name:
                mesh.connect(name, other)


def converge(mesh):
    """What was lost is repaired by the gossip of every 30 seconds: at 30 % loss within a few rounds."""
    for _ in range(6):
        mesh.periodic()
    mesh.loss = 0.0
    mesh.periodic()


def test_fifty_peers_agree_after_loss_partition_and_merge():
    mesh = Mesh(50, FewIds(1), loss=0.3)
    connected(mesh)
    converge(mesh)
    mesh.assert_agreement()

    names = list(mesh.peers)
    lower = set(names[:25])
    cut = [tuple(sorted(link)) for link in sorted(mesh.links, key=sorted) if len(link & lower) == 1]
    mesh.loss = 0.3
    for one, other in cut:
        mesh.disconnect(one, other)
    converge(mesh)
    mesh.assert_agreement()
    assert all(mesh.part(name) <= lower for name in lower)

    # A part that does not know the other one may choose its ids.
    mesh.loss = 0.3
    mesh.restart(names[3])
    mesh.restart(names[40])
    for one, other in cut:
        mesh.connect(one, other)
    converge(mesh)
    mesh.assert_agreement()


def test_peer_that_restarts_supersedes_its_former_record():
    mesh = Mesh(3, Random(1))
    first, second, third = mesh.peers
    for one, other in pairwise((first, second, third)):
        mesh.connect(one, other)
    for _ in range(5):
        mesh.disconnect(first, second)
        mesh.connect(first, second)
        mesh.spread()
    before = mesh.peers[third].peers[first]
    mesh.restart(first)
    mesh.spread()
    mesh.assert_agreement()
    after = mesh.peers[third].peers[first]
    assert after.uid != before.uid
    assert after.version > before.version


@pytest.mark.parametrize("version", [1 << 62, (1 << 62) + 1, (1 << 63) - 1])
def test_a_version_made_up_by_another_peer_does_not_end_those_of_a_peer(version):
    names = [name_of(number) for number in range(3)]
    victim, other, bad = (Gossip(name, number + 1, Random(number)) for number, name in enumerate(names))
    for one, two in ((victim, other), (victim, bad), (other, bad)):
        one.established(two.name)
        two.established(one.name)
    made_up = Peer(victim.name, "", 99, version, 5, {})
    for one in (victim, other):
        one.receive([made_up], bad.name)
    victim.disconnected(bad.name)
    victim.established(bad.name)
    # The neighbour takes it, as far as its decoder is concerned, too.
    decoder = codec.Decoder()
    decoder.feed(codec.encode(codec.Records(victim.everything())))
    other.receive(decoder.message().peers, victim.name)
    assert other.peers[victim.name] == victim.peers[victim.name]
    assert other.peers[victim.name].links == {other.name: True, bad.name: True}


def test_records_that_are_not_expected_are_ignored_until_they_are():
    peer = Gossip(name_of(0), 1, Random(1))
    peer.expected = {name_of(1)}
    record = Peer(name_of(2), "", 1, 1, 5, {name_of(0): True})
    long = Peer(name_of(1), "", 1, 1, 6, {name_of(number): True for number in range(2, 400)})
    peer.receive([record, long])
    assert peer.everything() == (peer.peers[peer.name],)
    peer.expected = {name_of(1), name_of(2)}
    peer.receive([record, Peer(name_of(1), "", 1, 1, 6, {name_of(2): True, name_of(3): True})])
    assert peer.peers.keys() == {name_of(0), name_of(1), name_of(2)}


def test_lowest_name_keeps_its_short_id_and_others_learn_the_new_one():
    mesh = Mesh(3, Random(5))
    low, middle, high = mesh.peers
    mesh.connect(middle, high)
    mesh.spread()
    taken = mesh.peers[high].short_id(high)
    # The lowest peer has the same id as the highest one, before they know of each other.
    record = Peer(low, "", 7, 9, taken, {middle: True})
    generation = mesh.peers[middle].generation
    mesh.peers[middle].connected(low)
    mesh.peers[middle].receive([record])
    mesh.spread()
    assert mesh.peers[middle].generation > generation
    assert mesh.peers[middle].owner(taken) == low
    new = mesh.peers[high].short_id(high)
    assert new not in (None, taken)
    assert mesh.peers[middle].short_id(high) == new


def test_neighbour_that_one_end_reports_only_is_on_no_route():
    peer = Gossip(name_of(0), 1, Random(1))
    peer.connected(name_of(1))
    peer.established(name_of(1))
    peer.receive([Peer(name_of(1), "", 1, 1, 5, {name_of(0): False})])
    assert peer.unicast == {}
    peer.receive([Peer(name_of(1), "", 1, 2, 5, {name_of(0): True})])
    assert peer.unicast == {name_of(1): name_of(1)}


@pytest.mark.parametrize("order", [1, -1])
def test_routes_do_not_depend_on_the_order_in_which_links_were_made(order):
    # A square: both neighbours of the source lead to the peer on its far side, and the lower name is the one used.
    source, low, high, far = map(name_of, range(4))
    links = {source: (low, high), low: (source, far), high: (source, far), far: (low, high)}
    topology = Topology(
        {name: Peer(name, "", 1, 1, 1, dict.fromkeys(ends[::order], True)) for name, ends in links.items()}
    )
    assert topology.unicast(source) == {low: low, high: high, far: low}
    assert (topology.broadcast(source, low), topology.broadcast(source, high)) == ([far], [])


@pytest.mark.parametrize(
    ("before", "action", "expected", "owner"),
    [
        ([], ("add", "b"), False, "b"),
        ([("add", "b"), ("remove", "b")], ("add", "c"), True, "c"),
        ([("add", "b")], ("add", "a"), True, "a"),
        ([("add", "b")], ("add", "c"), False, "b"),
        ([("add", "a"), ("add", "b")], ("remove", "a"), True, "b"),
        ([("add", "a"), ("add", "b")], ("remove", "b"), False, "a"),
        ([("add", "a")], ("remove", "a"), False, None),
    ],
)
def test_claims_of_a_short_id_that_invalidate_flows(before, action, expected, owner):
    ids = ShortIds()
    for verb, name in before:
        getattr(ids, verb)(name, 7)
    assert getattr(ids, action[0])(action[1], 7) is expected
    assert ids.owner(7) == owner


def test_all_4096_short_ids_are_found_and_then_none():
    ids = ShortIds()
    random = Random(1)
    for number in range(4096):
        ids.add(name_of(number), ids.choose(random))
    assert len({ids.owner(short_id) for short_id in range(4096)}) == 4096
    assert ids.choose(random) is None
    ids.remove(ids.owner(77), 77)
    assert ids.choose(random) == 77


def test_network_identifier_has_the_source_in_its_low_bits():
    assert vni(0xABC, 0x123) == 0x123ABC
    assert short_ids_of(0x123ABC) == (0xABC, 0x123)
