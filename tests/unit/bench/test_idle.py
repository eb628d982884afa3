# SPDX-License-Identifier: Apache-2.0
"""Shares of a processor between two readings of a node."""

from __future__ import annotations

from pytest import approx

from tests.bench import idle


def test_shares_are_those_of_the_time_between_the_readings():
    before = {"": 100.0, "ovs-vswitchd": 5.0, "gone": 1.0}
    after = {"": 110.0, "ovs-vswitchd": 5.5, "new": 7.0}
    assert idle.shares(before, after) == {"ovs-vswitchd": approx(5.0)}


def test_a_reading_has_services_and_the_node():
    class Node:
        def ssh(self, _node, _command):
            return "812.4\ncpu.stat:usage_usec 2000000\nsystem.slice/heddle-mesh.service/cpu.stat:usage_usec 500000\n"

    assert idle.usage(Node(), "node1") == {"": 812.4, "the whole node": 2.0, "heddle-mesh": 0.5}
