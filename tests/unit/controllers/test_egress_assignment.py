# SPDX-License-Identifier: Apache-2.0
"""Which host holds which egress address."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.egress.egress_assignment import Host, assigned

SUBNETS = ("192.0.2.0/24", "2001:db8::/64")
NAMES = ("node1", "node2", "node3", "node4")


def hosts(*names: str) -> list[Host]:
    return [Host(name, SUBNETS) for name in names]


ADDRESSES = [f"192.0.2.{number}" for number in range(100, 112)] + [f"2001:db8::{number}" for number in range(100, 104)]
WANTED = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.sampled_from(ADDRESSES), min_size=1, max_size=5, unique=True), max_size=6
)
THERE = st.sets(st.sampled_from(NAMES))


@given(WANTED, THERE)
def test_every_address_is_on_one_host_and_two_of_an_object_on_two(wanted, there):
    found = assigned(wanted, hosts(*sorted(there)), {}, {})
    given_out = [address for held in found.holders.values() for address in held]
    assert len(given_out) == len(set(given_out))
    for name, held in found.holders.items():
        assert set(held) <= set(wanted[name])
        assert len(set(held.values())) == len(held)
        assert set(held.values()) <= there
        assert len(held) + len(found.failures[name]) == len(wanted[name])


@given(WANTED, THERE)
def test_the_same_again_changes_nothing(wanted, there):
    found = assigned(wanted, hosts(*sorted(there)), {}, {})
    assert assigned(wanted, hosts(*sorted(there)), {}, found.holders) == found


@given(WANTED, THERE, st.sampled_from(NAMES))
def test_only_the_addresses_of_a_host_that_leaves_move(wanted, there, gone):
    first = assigned(wanted, hosts(*sorted(there | {gone})), {}, {})
    second = assigned(wanted, hosts(*sorted(there - {gone})), {}, first.holders)
    for name, held in first.holders.items():
        for address, host in held.items():
            if host != gone:
                assert second.holders[name][address] == host


def test_the_network_of_an_address():
    host = Host("node1", SUBNETS, (("eth3", "198.51.100.0/24"), ("eth4", "198.51.100.64/26"), ("eth5", "192.0.2.0/25")))
    addresses = ("192.0.2.100", "198.51.100.1", "198.51.100.65", "203.0.113.1", "2001:db8::1")
    found = {text: host.nic(text) for text in addresses}
    assert found == {
        "192.0.2.100": "", "198.51.100.1": "eth3", "198.51.100.65": "eth4", "203.0.113.1": None, "2001:db8::1": "",
    }  # fmt: skip


def test_address_goes_to_a_host_with_a_further_nic_in_its_network():
    """As in ovn-kubernetes, also where other hosts have that network as their provider network."""
    apart = Host("node2", ("198.51.100.0/24",), (("eth3", "192.0.2.0/24"),))
    assert assigned({"a": ["192.0.2.100"]}, [*hosts("node1"), apart], {}, {}).holders == {"a": {"192.0.2.100": "node2"}}
    before = {"a": {"192.0.2.100": "node1"}}
    assert assigned({"a": ["192.0.2.100"]}, [*hosts("node1"), apart], {}, before).holders == before


@given(st.integers(1, 12), THERE.filter(bool))
def test_addresses_are_balanced(count, there):
    wanted = {f"object{number}": [ADDRESSES[number]] for number in range(count)}
    found = assigned(wanted, hosts(*sorted(there)), {}, {})
    load = Counter(host for held in found.holders.values() for host in held.values())
    assert max(load[name] for name in there) - min(load[name] for name in there) <= 1


def reasons(found, name: str) -> list[str]:
    return [reason for reason, _message in found.failures[name]]


def test_address_of_a_host_is_not_given_away():
    found = assigned({"a": ["192.0.2.7", "192.0.2.8"]}, hosts("node1"), {"192.0.2.7": "an address of host node3"}, {})
    assert found.holders == {"a": {"192.0.2.8": "node1"}}
    assert found.failures["a"] == [("EgressIPConflict", "192.0.2.7 is an address of host node3")]


def test_address_that_two_objects_want_stays_with_the_one_that_has_it():
    wanted = {"a": ["192.0.2.7"], "b": ["192.0.2.7"]}
    assert reasons(assigned(wanted, hosts("node1", "node2"), {}, {}), "b") == ["UnsupportedRequest"]
    kept = assigned(wanted, hosts("node1", "node2"), {}, {"b": {"192.0.2.7": "node2"}})
    assert kept.holders == {"a": {}, "b": {"192.0.2.7": "node2"}}
    assert reasons(kept, "a") == ["UnsupportedRequest"]


def test_address_beyond_the_provider_subnets_and_no_labelled_host():
    assert reasons(assigned({"a": ["198.51.100.1"]}, hosts("node1"), {}, {}), "a") == ["NoMatchingNodeFound"]
    found = assigned({"a": ["192.0.2.7"]}, [], {}, {})
    assert found.failures["a"][0][1].endswith("has the label k8s.ovn.org/egress-assignable")


def test_more_addresses_than_hosts():
    found = assigned({"a": ["192.0.2.7", "192.0.2.8"]}, hosts("node1"), {}, {})
    assert reasons(found, "a") == ["UnassignedRequest"]


def test_an_address_leaves_the_only_host_of_another():
    """The order of the addresses does not matter: either has a host where there is one for both."""
    both = Host("node1", ("192.0.2.0/24",), (("eth3", "203.0.113.0/24"),))
    narrow, wide = "203.0.113.100", "192.0.2.100"
    for addresses in ([wide, narrow], [narrow, wide]):
        found = assigned({"a": addresses}, [both, Host("node2", ("192.0.2.0/24",))], {}, {})
        assert found.holders == {"a": {wide: "node2", narrow: "node1"}}
        assert found.failures == {"a": []}
    # An address that is added moves the one that is there, and no other.
    third = Host("node3", ("192.0.2.0/24",))
    before = {"a": {wide: "node1", "192.0.2.101": "node2"}}
    found = assigned({"a": [wide, "192.0.2.101", narrow]}, [both, Host("node2", ("192.0.2.0/24",)), third], {}, before)
    assert found.holders == {"a": {wide: "node3", "192.0.2.101": "node2", narrow: "node1"}}


NETWORKS = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
OF_NETWORKS = ("192.0.2.100", "192.0.2.101", "198.51.100.100", "198.51.100.101", "203.0.113.100", "203.0.113.101")
ANY_HOSTS = st.lists(
    st.tuples(st.sets(st.sampled_from(NETWORKS)), st.sets(st.sampled_from(NETWORKS))), min_size=1, max_size=4
).map(
    lambda found: [
        Host(name, tuple(sorted(subnets)), tuple(("eth3", subnet) for subnet in sorted(others)))
        for name, (subnets, others) in zip(NAMES, found, strict=False)
    ]
)  # fmt: skip
SOME_ADDRESSES = st.lists(st.sampled_from(OF_NETWORKS), min_size=1, max_size=5, unique=True)
# Addresses of other objects, each at one host if it may be there.
ELSEWHERE = st.lists(st.sampled_from(NAMES), max_size=6)
BEFORE = st.dictionaries(st.sampled_from(OF_NETWORKS), st.sampled_from(NAMES), max_size=5)


def kept_of(addresses: list[str], able: dict[str, Host], before: dict[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for address in addresses:
        host = before.get(address)
        if host in able and able[host].nic(address) is not None and host not in kept.values():
            kept[address] = host
    return kept


def possible(
    addresses: list[str], able: dict[str, Host], kept: dict[str, str]
) -> Iterator[tuple[str | None, ...]]:  # fmt: skip
    """Yield every assignment of different hosts in which no address loses its host altogether."""
    choices: list[list[str | None]] = []
    for address in addresses:
        nics = {name: host.nic(address) for name, host in able.items()}
        room = {name for name, nic in nics.items() if nic} or {name for name, nic in nics.items() if nic is not None}
        choices.append(sorted(room | {kept[address]}) if address in kept else [*sorted(room), None])
    for chosen in itertools.product(*choices):
        given_out = [host for host in chosen if host]
        if len(given_out) == len(set(given_out)):
            yield chosen


@given(SOME_ADDRESSES, ANY_HOSTS, BEFORE, ELSEWHERE)
def test_no_other_assignment_is_better(addresses, there, before, elsewhere):
    """The most addresses have a host; of these the fewest move; the others go to hosts with few addresses."""
    able, load = {host.name: host for host in there}, Counter(elsewhere)
    # What is elsewhere: objects with one address each, that are not about to move.
    everywhere = [Host(host.name, host.subnets, (*host.others, ("eth9", "10.0.0.0/8"))) for host in there]
    others = {f"b{number}": {f"10.0.0.{number + 1}": name} for number, name in enumerate(elsewhere) if name in able}
    found = assigned({**others, "a": addresses}, everywhere, {}, {**others, "a": before}).holders
    kept = kept_of(addresses, able, before)

    def worth(chosen: tuple[str | None, ...]) -> tuple:
        new = [host for address, host in zip(addresses, chosen, strict=True) if host and kept.get(address) != host]
        having = [host is not None for host in chosen]
        stay = sum(kept.get(address) == host for address, host in zip(addresses, chosen, strict=True) if host)
        return sum(having), having, stay, -sum(load[host] for host in new)

    best = max(map(worth, possible(addresses, able, kept)))
    assert worth(tuple(found["a"].get(address) for address in addresses)) == best
    assert {name: found[name] for name in others} == others
    # Whatever the order of the hosts; and the same again changes nothing.
    assert assigned({**others, "a": addresses}, everywhere[::-1], {}, {**others, "a": before}).holders == found
    assert assigned({**others, "a": addresses}, everywhere, {}, found).holders == found


@given(WANTED, THERE, THERE, st.data())
def test_what_has_not_left_its_host_stays_and_nothing_else_makes_way(wanted, there, then, data):
    before = assigned(wanted, hosts(*sorted(there)), {}, {}).holders
    after = assigned(wanted, hosts(*sorted(then)), {}, before).holders
    held = {address: (name, host) for name, addresses in before.items() for address, host in addresses.items()}
    left = [address for address, (name, host) in held.items() if after[name].get(address, host) != host]
    names = data.draw(st.sets(st.sampled_from(left))) if left else set()
    kept = {address: held[address][1] for address in names}
    found = assigned(wanted, hosts(*sorted(then)), {}, after, kept)
    for name, addresses in found.holders.items():
        assert list(addresses) == [address for address in wanted[name] if address in addresses]
        # As always, two addresses of one object are on two hosts.
        assert len(set(addresses.values())) == len(addresses)
        staying = {address: host for address, host in kept.items() if held[address][0] == name}
        assert staying.items() <= addresses.items()
        others = {address: host for address, host in after[name].items() if address not in staying}
        for address, host in others.items():
            assert addresses.get(address) == host or host in staying.values()
        for address in staying:
            message = f"{address} is still at {kept[address]}, which has not given it up: run heddle.ovn.networks again"
            assert ("HandoverPending", message) in found.failures[name]
