# SPDX-License-Identifier: Apache-2.0
"""Lists of the kernel that change while they are read: Open vSwitch makes links all the time."""

from __future__ import annotations

import pytest
from pyroute2.netlink.exceptions import NetlinkDumpInterrupted

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import device, kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol.raw_socket import DumpInterrupted, RawSocket
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reader import read_state


class Busy:
    """A netlink socket whose list of routes is cut short the first few times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def get_routes(self, **_family):
        self.left -= 1
        if self.left >= 0:
            raise NetlinkDumpInterrupted
        return ()

    def nothing(self, **_family):
        return ()

    get_rules = get_neighbours = nothing


class Empty:
    """A raw socket of a namespace without links."""

    def dump(self, _kind, _body):
        return []


def test_an_interrupted_list_is_read_again(monkeypatch):
    monkeypatch.setattr(kernel, "_PAUSE_SECONDS", 0)
    assert read_state(Busy(3), Empty()).links == {}


def test_an_interrupted_list_of_a_raw_socket_is_read_again(monkeypatch):
    monkeypatch.setattr(kernel, "_PAUSE_SECONDS", 0)
    left = [DumpInterrupted(), DumpInterrupted()]

    def dump(*_arguments):
        if left:
            raise left.pop()
        return []

    monkeypatch.setattr(RawSocket, "dump", dump)
    assert kernel.read_links(None) == {}


def test_permanently_interrupted_list_is_an_error(monkeypatch):
    monkeypatch.setattr(kernel, "_PAUSE_SECONDS", 0)
    with pytest.raises(NetlinkDumpInterrupted):
        read_state(Busy(1000), Empty())


@pytest.mark.parametrize("read", [device.read_device, device.read_device_mac])
def test_a_link_that_goes_while_it_is_read_is_not_there(monkeypatch, read):
    """Open vSwitch removes the device of a bridge some time after the bridge."""
    monkeypatch.setattr(device.IPRoute, "link_lookup", lambda _netlink, **_name: [2**30])
    assert read("gone") is None
