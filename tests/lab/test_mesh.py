# SPDX-License-Identifier: Apache-2.0
"""The mesh on hosts whose clock jumps: connections, overlays and flows depend on none."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

DAY = 86400
pytestmark = pytest.mark.long


@pytest.fixture
def clock(lab):
    """The difference of node2's clock to this machine's, which is restored afterwards."""
    if not lab.try_ssh("node2", "systemd-detect-virt --container").returncode:
        pytest.skip("a container has the clock of this machine; DRIVER=uml and DRIVER=vm have their own")

    def set_ahead(seconds: int) -> None:
        lab.ssh("node2", "date", "-s", f"@{int(time.time()) + seconds}")

    yield set_ahead
    set_ahead(0)


def connections(lab, node: str) -> dict[str, dict]:
    return {
        one["node"]: one for one in json.loads(lab.ssh(node, "heddle-host", "mesh", "status", "--json"))["connections"]
    }


def test_a_clock_that_jumps_changes_nothing(lab, clock):
    before = connections(lab, "node2")
    assert {one["state"] for one in before.values()} == {"established"}
    plan = lab.plan()
    (address,) = (
        one.split("/")[0]
        for interface in plan["workloads"]["woven/woven2"]["interfaces"]
        for one in interface["addresses"]
        if interface["network"] == "woven_fabric" and ":" not in one
    )
    command = ("ip", "netns", "exec", "woven_woven1", "ping", "-nq", "-i0.05", "-c200", "-W30", address)
    echoes = subprocess.Popen(
        ["ssh", "-F", str(lab.directory / "ssh_config"), "node1", *command], stdout=subprocess.PIPE, text=True
    )
    for ahead in (DAY, -DAY, 0):
        clock(ahead)
    assert "200 packets transmitted, 200 received" in echoes.communicate()[0]
    after = connections(lab, "node2")
    assert {one: (entry["state"], entry["overlay"]) for one, entry in after.items()} == {
        one: (entry["state"], entry["overlay"]) for one, entry in before.items()
    }
    assert all(after[one]["seconds"] >= before[one]["seconds"] for one in before)
