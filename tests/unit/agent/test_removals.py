# SPDX-License-Identifier: Apache-2.0
"""Kernel notifications when other software removes Heddle's objects, in a namespace of the test's own."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.service.removals import Removals, concerns_heddle
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.monitor import configured_interface

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

HOST = f"removals{os.getpid()}"


def run(*words: str, text: str = "") -> None:
    subprocess.run(words, check=True, capture_output=True, input=text, text=True)


@pytest.fixture
def removals():
    """What listens; the namespace has a link with something of Heddle's and something of others."""
    kernel.create_namespace(HOST, "")
    try:
        with kernel.in_netns(HOST):
            run("ip", "link", "add", "mp1", "type", "veth", "peer", "name", "far")
            run("ip", "link", "set", "far", "up")
            run("ip", "link", "set", "mp1", "up")
            run("ip", "address", "add", "198.18.7.1/24", "dev", "mp1")
            for family, prefix in (("-4", "10.{}.0.0/16"), ("-6", "fd00:{}::/64")):
                for number, protocol in ((1, "85"), (2, "static")):
                    run("ip", family, "route", "add", prefix.format(number), "dev", "mp1", "proto", protocol)
                    run("ip", family, "rule", "add", "fwmark", str(number), "table", "9", "proto", protocol)
            opened = Removals()
            yield opened
            opened.close()
    finally:
        with contextlib.suppress(OSError):
            kernel.remove_namespace(HOST)


def reported(removals) -> bool:
    """Wait until a change is reported."""
    while select.select(removals.sources, [], [], 10)[0]:
        if removals.changed():
            return True
    return False


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ip route del 10.1.0.0/16", True),
        ("ip -6 route del fd00:1::/64", True),
        ("ip rule del fwmark 1", True),
        ("ip -6 rule del fwmark 1", True),
        ("ip rule flush", True),
        ("ip route del 10.2.0.0/16", False),
        ("ip -6 rule del fwmark 2", False),
        ("ip route add 10.3.0.0/16 dev mp1 proto 85", False),
        ("ip address del 198.18.7.1/24 dev mp1", False),
        ("ip link add other type veth peer name other-far", False),
    ],
)
def test_removal_of_marked_objects_is_reported(removals, command, expected):
    removals.changed()
    run(*command.split())
    assert reported(removals) if expected else not removals.changed()


@pytest.mark.parametrize("name", ["ipv4/conf/mp1/forwarding", "ipv4/conf/mp1/rp_filter", "ipv6/conf/all/forwarding"])
def test_settings_of_devices_are_reported(removals, name):
    removals.changed()
    with open(f"/proc/sys/net/{name}", encoding="utf-8") as setting:
        value = "0" if setting.read().strip() != "0" else "1"
    with open(f"/proc/sys/net/{name}", "w", encoding="utf-8") as setting:
        setting.write(value)
    assert reported(removals)


@pytest.mark.parametrize("kind", [20, 21, 24, 25, 33, 80, 10 << 8])
def test_truncated_message_is_ignored(kind):
    for size in range(16):
        assert not concerns_heddle(kind, b"\0" * size)
        assert configured_interface(kind, b"\0" * size) in (None, 0)
