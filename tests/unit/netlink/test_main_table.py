# SPDX-License-Identifier: Apache-2.0
"""Which routes of the main table VRFs have copies of, and what that costs with many VRFs."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.netlink.main_table import copies
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol.rtnetlink import RT_TABLE_MAIN
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reader import HostState, RouteState
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import (
    HostAddress,
    HostLink,
    HostNetwork,
    HostRoute,
    Vrf,
)


class Message(dict):
    """A route's message without a gateway."""

    def get_attr(self, _name):
        return None


class Walked(tuple):
    """A tuple that counts how often it is walked."""

    walks = 0

    def __iter__(self):
        Walked.walks += 1
        return super().__iter__()


def state(*prefixes: str) -> HostState:
    """Return the state of a host whose main table has routes of others to these prefixes."""
    routes = {
        (RT_TABLE_MAIN, to, 0): RouteState(own=False, kind="unicast", device="eth9", message=Message())
        for to in prefixes
    }
    return HostState({}, {}, routes, (), (), {})


def network(count: int) -> HostNetwork:
    """Return what that many networks want, each with a subnet of its own and one route to another prefix."""
    numbers = range(1, count + 1)
    return HostNetwork(
        links=Walked(HostLink(f"mp{number}", vrf=f"vrf{number}") for number in numbers),
        vrfs=tuple(Vrf(f"vrf{number}", f"mp{number}", f"net{number}", main_routes=True) for number in numbers),
        addresses=Walked(HostAddress(f"mp{number}", f"10.{number}.0.2/16") for number in numbers),
        routes=Walked(
            route
            for number in numbers
            for route in (
                HostRoute(f"172.16.{number}.0/24", device="br-ex", vrf=f"vrf{number}"),
                HostRoute(f"10.128.{number}.0/24", device=f"mp{number}", vrf=f"vrf{number}"),
            )
        ),
    )


def tables(count: int) -> dict[str, int]:
    return {f"vrf{number}": 1000 + number for number in range(1, count + 1)}


def test_each_vrf_has_copies_but_of_its_own_prefixes_and_those_inside_of_its_links():
    found = copies(
        network(2),
        state("10.1.5.0/24", "10.128.2.0/28", "172.16.1.0/24", "172.16.2.0/28", "2001:db8::/32"),
        tables(2),
    )
    assert sorted((table, to) for table, to, _metric in found) == [
        (1001, "10.128.2.0/28"), (1001, "172.16.2.0/28"),
        (1002, "10.1.5.0/24"), (1002, "172.16.1.0/24"), (1002, "172.16.2.0/28"),
    ]  # fmt: skip
    assert {table: copy.network for (table, _to, _metric), copy in found.items()} == {1001: "net1", 1002: "net2"}


def test_what_is_desired_is_walked_once_for_all_vrfs():
    def walks(count: int) -> int:
        desired = network(count)
        Walked.walks = 0
        assert copies(desired, state("192.0.2.0/24"), tables(count))
        return Walked.walks

    assert walks(2) == walks(20)
