# SPDX-License-Identifier: Apache-2.0
"""The setting `coil`: what is refused, and which neighbours hosts have by it."""

from __future__ import annotations

import re

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.bird_configuration import render_bird
from ansible_collections.heddle.ovn.plugins.module_utils.store import settings as state_settings
from ansible_collections.heddle.ovn.plugins.module_utils.store.coil_settings import complete, mistakes
from tests.pipeline import decide, plan_of

POOL = """---
apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata: {name: default}
spec: {subnets: [{ipv4: 10.2.0.0/24}]}
"""
NODES = tuple(f"node{number}" for number in range(1, 5))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"as_number": 1, "hold_time": 3, "bfd": True},
        {"bfd": False, "gateway": "node_address"},
        {"bfd": {"interval": 10, "multiplier": 255}},
        {"protocol": "ospf", "ospf": {"area": "0.0.0.1", "interfaces": ["eth1", "bond*"]}},
        {"protocol": "none"},
        {"racks": [{"as_number": 1, "nodes": ["node1"]}, {"as_number": 2, "nodes": []}]},
        {"route_reflectors": ["node1"], "mesh": False},
    ],
)
def test_accepted(value):
    assert mistakes(value) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "must be a mapping"),
        ({"as": 1}, "unknown field as; known are protocol, as_number"),
        ({"protocol": "rip"}, "protocol: must be one of bgp, ospf, none, not 'rip'"),
        ({"gateway": "veth"}, "gateway: must be one of link_local, node_address, not 'veth'"),
        ({"as_number": 0}, "as_number: must be a number from 1 to 4294967295, not 0"),
        ({"hold_time": 2}, "hold_time: must be a number of seconds from 3 to 65535, not 2"),
        ({"route_reflectors": "node1"}, "route_reflectors: must be a list of hosts"),
        ({"racks": {}}, "racks: must be a list"),
        ({"racks": [{"nodes": ["node1"]}]}, "racks: entry 0: must have as_number and nodes"),
        ({"racks": [{"as_number": 1, "nodes": ["a"]}, {"as_number": 1, "nodes": []}]},
         "racks: entry 1: another rack has as_number 1"),
        ({"racks": [{"as_number": 1, "nodes": ["a"]}, {"as_number": 2, "nodes": ["a"]}]},
         "racks: entry 1: a is in another rack"),
        ({"routers": [{"address": "fd00::1"}, {"address": "FD00:0::1"}]},
         "routers: entry 1: 'FD00:0::1' is no IP address, or there twice"),
        ({"bfd": {"interval": 9}}, "bfd: interval: must be a number of milliseconds from 10 to 60000, not 9"),
        ({"bfd": {"multiplier": 1}}, "bfd: multiplier: must be a number from 2 to 255, not 1"),
        ({"bfd": 100}, "bfd: must be true, false, or a mapping with interval and multiplier, not 100"),
        ({"protocol": "ospf"}, "ospf: must have interfaces"),
        ({"ospf": {"interfaces": ['eth1" { }; #']}}, "ospf: interfaces: must be a list of NICs or patterns"),
        ({"ospf": {"interfaces": []}}, "ospf: interfaces: must be a list of NICs or patterns"),
        ({"ospf": {"area": 0, "interfaces": ["e"], "cost": 1}}, "ospf: must be a mapping with area and interfaces"),
        ({"ospf": {"area": "1", "interfaces": ["e"]}}, "ospf: area: must be written as an IPv4 address"),
    ],
)  # fmt: skip
def test_refused(value, expected):
    (found,) = mistakes(value)
    assert found.startswith(expected)


def test_keys_of_different_types_are_unknown_fields():
    first, second = mistakes({"as": 1, 1: 2})
    assert (first[:15], second[:16]) == ("unknown field 1", "unknown field as")


def test_defaults_are_filled_in():
    assert complete({"bfd": True})["bfd"] == {"interval": 100, "multiplier": 3}
    assert complete({"bfd": {"interval": 50}})["bfd"] == {"interval": 50, "multiplier": 3}
    assert complete({"bfd": False})["bfd"] is complete({})["bfd"] is None
    assert complete({"ospf": {"interfaces": ["eth1"]}})["ospf"] is None


@pytest.mark.parametrize("field", ["route_reflectors", "routers", "racks"])
def test_a_host_that_is_not_in_the_inventory_is_refused(field):
    entry = {"route_reflectors": "node9", "routers": {"address": "192.0.2.1", "nodes": ["node9"]},
             "racks": {"as_number": 5, "nodes": ["node9"]}}[field]  # fmt: skip
    (refusal,) = decide(POOL, settings={"coil": {field: [entry]}})[1]
    assert f"coil.{field}: node9 is no host of the group heddle_nodes" in str(refusal)


def neighbours(settings: dict) -> dict[str, set[tuple[str, int, bool]]]:
    """The neighbours of each host by BGP: title, number of the autonomous system, whether it is a client."""
    hosts = {
        name: {"chassis": name, "encap_ips": [f"192.0.2.{number}"], "addresses": [f"192.0.2.{number}"]}
        for number, name in enumerate(NODES, start=1)
    }
    plan = plan_of(POOL, hosts=hosts, settings={"coil": settings})
    found = {}
    for name in NODES:
        parts = re.findall(r"protocol bgp .*?\n}\n", render_bird(plan, name).text, re.DOTALL)
        found[name] = {
            (re.search('description "(.*)"', part)[1], int(re.search(r"neighbor \S+ as (\d+)", part)[1]),
             "rr client" in part)
            for part in parts
        }  # fmt: skip
    return found


def test_full_mesh():
    assert neighbours({})["node2"] == {(name, 64512, False) for name in ("node1", "node3", "node4")}
    assert neighbours({"mesh": False})["node2"] == set()


def test_two_reflectors_are_neighbours_and_others_are_their_clients():
    found = neighbours({"route_reflectors": ["node1", "node2"]})
    assert found["node3"] == found["node4"] == {("node1", 64512, False), ("node2", 64512, False)}
    assert found["node1"] == {("node2", 64512, False), ("node3", 64512, True), ("node4", 64512, True)}


def test_hosts_of_different_racks_are_no_neighbours():
    racks = [{"as_number": 65001, "nodes": ["node1", "node2"]}]
    routers = [{"address": "192.0.2.20", "as_number": 65100, "nodes": ["node1"]}, {"address": "192.0.2.21"}]
    found = neighbours({"racks": racks, "routers": routers})
    assert found["node1"] == {("node2", 65001, False), ("router", 65100, False), ("router", 65001, False)}
    assert found["node3"] == {("node4", 64512, False), ("router", 64512, False)}


def test_a_reflector_of_another_rack_does_not_count():
    racks = [{"as_number": 65001, "nodes": ["node1", "node2"]}]
    found = neighbours({"racks": racks, "route_reflectors": ["node1"]})
    assert found["node2"] == {("node1", 65001, False)}
    assert found["node3"] == {("node4", 64512, False)}


def test_addresses_of_routers_are_stored_in_the_standard_notation():
    """They are compared as text with those of the inventory."""
    settings = state_settings.complete({"coil": {"routers": [{"address": "FD00:0::1"}, {"address": "192.0.2.1"}]}})
    assert [router["address"] for router in settings["coil"]["routers"]] == ["fd00::1", "192.0.2.1"]
