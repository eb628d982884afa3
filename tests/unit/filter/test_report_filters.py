# SPDX-License-Identifier: Apache-2.0
"""Filters that put together what hosts reported."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.filter.host_files import host_files
from ansible_collections.heddle.ovn.plugins.filter.migration_outages import migration_outages
from ansible_collections.heddle.ovn.plugins.filter.traffic_report import traffic_report

ECHOES = {"sent": 300, "lost": 5, "longest_gap_ms": 131, "slowest_ms": 9}


def test_each_host_has_a_file():
    files = host_files({"node1": {"links": ["eth0"]}, "node2": {}})
    assert {name: json.loads(text) for name, text in files.items()} == {
        "host-node1.json": {"links": ["eth0"]}, "host-node2.json": {},
    }  # fmt: skip
    assert all(text.endswith("}\n") for text in files.values())


@pytest.mark.parametrize(("downtime", "beyond"), [(52, 79), (131, 0), (132, 0), (0, 131), (None, 131), ("52", 79)])
def test_outage_beyond_the_downtime(downtime, beyond):
    hosts = {"node1": {}, "node2": {"10.0.0.5": ECHOES}, "node3": {"fd00::5": ECHOES}}
    expected = {**ECHOES, "beyond_downtime_ms": beyond}
    assert migration_outages(hosts, downtime) == {"10.0.0.5": expected, "fd00::5": expected}


def traffic(hosts: dict, names: list[str]) -> dict:
    prefixed = {
        host: {f"heddle_upgrade_{name}": value for name, value in found.items()} for host, found in hosts.items()
    }
    return traffic_report(prefixed, names)


def test_traffic_of_hosts_that_did_not_take_part_is_no_report():
    skipped = {"sending": {"changed": False, "skipped": True}}
    assert traffic({"node1": {}, "node2": skipped}, ["node1", "node2", "elsewhere"]) == {}


def test_clock_limits_are_those_of_question_and_answer():
    started, stopped = {"now": 100.0}, {"now": 205.0, "figures": []}
    hosts = {"node1": {"sending": started, "sent": stopped, "before": "200.5", "after": 201.0}}
    assert traffic(hosts, ["node1"])["clocks"] == {"node1": [4.0, 4.5]}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"sending": {"msg": "no plan"}}, "no plan"),
        ({"sending": {"now": 100.0}, "sent": {"msg": "timed out"}}, "timed out"),
        ({"sending": {"now": 100.0}}, ""),
    ],
)
def test_host_without_figures_is_a_problem(found, reason):
    (problem,) = [line for line in traffic({"node1": found}, ["node1"])["problems"] if "node1" in line]
    assert reason in problem
