# SPDX-License-Identifier: Apache-2.0
"""Tap devices of virtual machines in the real kernel, and what the host's end of them answers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reception import reception
from ansible_collections.heddle.ovn.plugins.module_utils.qemu import instance
from ansible_collections.heddle.ovn.plugins.module_utils.qemu.taps import reconcile_taps
from ansible_collections.heddle.ovn.plugins.module_utils.types.virtual_machine import Nic, VirtualMachine
from tests.unit.netlink.test_workload_links import PREFIX, host

__all__ = ["host"]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="this machine has no /dev/net/tun"),
]
NIC = Nic("tap_vm", "0a:58:0a:00:00:05", 1400, "net")
VM = VirtualMachine("red_vm", 96, (NIC,), "run")
IGNORED = {"host answers ARP": False, "host receives packets": False}
GUEST = "10.244.0.9"
# linux/if_tun.h.
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
IPV6 = Path("/proc/net/if_inet6")


@pytest.fixture(autouse=True)
def user(monkeypatch):
    monkeypatch.setattr(instance, "user_id", lambda: 0)


def apply(*vms, userspace=False, write=True):
    return reconcile_taps(list(vms), owner=PREFIX, userspace=userspace, write=write)


@pytest.mark.parametrize("userspace", [False, True])
def test_create_repeat_remove(host, userspace):
    assert apply(VM, userspace=userspace, write=False).changed
    assert NIC.host_name not in kernel.read_links(None)
    assert apply(VM, userspace=userspace).changed
    seen = kernel.read_links(None)[NIC.host_name]
    assert (seen["mtu"], seen["up"], seen["ipv6"]) == (1400, True, False)
    assert reception(seen) == dict.fromkeys(IGNORED, not userspace)
    assert NIC.host_name not in IPV6.read_text(encoding="ascii")
    assert not apply(VM, userspace=userspace).changed
    assert apply().changed
    assert NIC.host_name not in kernel.read_links(None)


def test_a_tap_of_an_older_release_is_changed_while_the_vm_runs(host):
    kernel.create_tap(NIC.host_name, 0)
    with attached(NIC.host_name):
        kernel.change_link(None, NIC.host_name, ifalias=f"heddle:{PREFIX}:net", mtu=1400, state="up")
        planned = apply(VM, userspace=True, write=False).changes
        assert [(one.before, one.after) for one in planned] == [
            ({"host has IPv6": True}, {"host has IPv6": False}),
            ({"host answers ARP": True, "host receives packets": True}, IGNORED),
        ]
        assert apply(VM, userspace=True).changes == planned
        assert NIC.host_name not in IPV6.read_text(encoding="ascii")
        assert not apply(VM, userspace=True).changed


def test_a_cut_off_creation_is_completed(host):
    kernel.create_tap(NIC.host_name, 0)
    assert apply(VM, userspace=True).changed
    assert not apply(VM, userspace=True).changed


def test_beside_the_userspace_datapath_a_guest_finds_no_address_of_the_host_by_arp(host):
    subprocess.run(["ip", "address", "add", "10.244.0.2/24", "dev", "lo"], check=True)
    found = []
    for userspace in (False, True):
        apply(VM, userspace=userspace)
        with attached(NIC.host_name) as guest:
            found.append(is_answered(guest, "10.244.0.2"))
    assert found == [True, False]


@contextlib.contextmanager
def attached(name):
    """The guest's end of a tap: reads and writes Ethernet frames (kernel documentation, networking/tuntap)."""
    with open("/dev/net/tun", "r+b", buffering=0) as device:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
        yield device


def is_answered(guest, address):
    """Ask by ARP for an address of the host, then send a datagram that makes the host ask for the guest's.

    The host handles the frames of a link in order, so its question shows that it did not answer the first one.
    """
    subprocess.run(["ip", "route", "replace", f"{GUEST}/32", "dev", NIC.host_name], check=True)
    subprocess.run(["ip", "neighbour", "flush", "all"], check=True)
    own, target = bytes.fromhex(NIC.mac.replace(":", "")), bytes.fromhex(kernel_mac().replace(":", ""))
    sender, wanted = socket.inet_aton(GUEST), socket.inet_aton(address)
    arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + own + sender + bytes(6) + wanted
    guest.write(b"\xff" * 6 + own + b"\x08\x06" + arp)
    # ICMP echo request (RFC 792).
    echo = struct.pack("!BBHHH", 8, 0, 0xF7FF, 0, 0)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(echo), 0, 0, 64, 1, 0) + sender + wanted
    total = sum(struct.unpack("!10H", header))
    checksum = ~(total + (total >> 16)) & 0xFFFF
    guest.write(target + own + b"\x08\x00" + header[:10] + checksum.to_bytes(2, "big") + header[12:] + echo)
    while select.select([guest], [], [], 60)[0]:
        frame = guest.read(2048)
        if frame[12:14] == b"\x08\x06" and frame[38:42] == sender:
            return frame[20:22] == b"\x00\x02"
    raise AssertionError("the host asks for no address of the guest")


def kernel_mac():
    return kernel.read_links(None)[NIC.host_name]["mac"]
