# SPDX-License-Identifier: Apache-2.0
"""Changes of an attached uplink that the kernel reports, in a namespace of the test's own."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.monitor import UplinkMonitor

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

HOST = f"uplinks{os.getpid()}"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def uplinks():
    """What listens; the namespace has the uplinks `taken` and `other`."""
    kernel.create_namespace(HOST, "")
    try:
        with kernel.in_netns(HOST):
            for name in ("taken", "other"):
                ip("link", "add", name, "type", "veth", "peer", "name", f"{name}-far")
                ip("link", "set", f"{name}-far", "up")
                ip("link", "set", name, "up")
            opened = UplinkMonitor(frozenset({"taken", "not there"}))
            yield opened
            opened.close()
    finally:
        with contextlib.suppress(OSError):
            kernel.remove_namespace(HOST)


@pytest.mark.parametrize(
    ("before", "words", "changed"),
    [
        ([], "address add 198.18.7.1/24 dev taken", True),
        ([], "address add fd00:6864:7::1/64 dev taken nodad", True),
        ([], "route add 203.0.113.0/24 dev taken", True),
        ([], "-6 route add 2001:db8::/64 dev taken", True),
        ([], "address add 198.18.7.1/24 dev other", False),
        ([], "route add 203.0.113.0/24 dev other", False),
        ([], "link set taken down", False),
        (["address add 198.18.7.1/24 dev taken"], "address delete 198.18.7.1/24 dev taken", False),
        (["route add 203.0.113.0/24 dev taken"], "route replace 203.0.113.0/24 dev other", False),
    ],
)
def test_only_changes_of_attached_uplinks_are_reported(uplinks, before, words, changed):
    for line in before:
        ip(*line.split())
    uplinks.changed()
    ip(*words.split())
    assert reported(uplinks) if changed else not uplinks.changed()


def reported(uplinks) -> bool:
    """Wait until the uplink's change is reported: the kernel reports IPv6 addresses a moment later."""
    while select.select([uplinks], [], [], 10)[0]:
        if uplinks.changed():
            return True
    return False


def test_buffer_overflow_counts_as_a_change(uplinks):
    lines = "".join(f"route add 203.0.{number >> 8}.{number & 255}/32 dev other\n" for number in range(4000))
    subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True, capture_output=True)
    assert uplinks.changed() is True
    assert uplinks.changed() is False
