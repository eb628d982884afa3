# SPDX-License-Identifier: Apache-2.0
"""What the kernel does not send on links of workloads."""

import os
import socket
import subprocess

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.workload_links import reconcile_endpoints
from tests.unit.netlink.test_workload_links import PREFIX, endpoint, host

__all__ = ["host"]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def test_the_kernel_answers_no_arp_beside_the_userspace_datapath(host):
    """It sees the frames of workloads, too: it would answer for the management port, whose address it has."""
    subprocess.run(["ip", "address", "add", "10.244.0.2/24", "dev", "lo"], check=True)
    found = []
    for userspace in (False, True):
        for _run in range(2):
            outcome = reconcile_endpoints([endpoint()], owner=PREFIX, userspace=userspace, write=True)
        assert not outcome.changed
        with kernel.in_netns(f"{PREFIX}_a"):
            found.append(neighbour("10.244.0.2"))
    assert found == ["REACHABLE", "FAILED"]


def neighbour(address):
    """Return what becomes of a neighbour that is asked for in the current namespace."""
    subprocess.run(["ip", "neighbour", "flush", "all"], check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"any", (address, 9))
    for _attempt in attempts(60):
        shown = subprocess.run(["ip", "neighbour", "show", address], check=True, capture_output=True, text=True).stdout
        if shown.split()[-1:] in (["REACHABLE"], ["FAILED"]):
            return shown.split()[-1]
    raise AssertionError(shown)
