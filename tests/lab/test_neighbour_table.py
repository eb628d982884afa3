# SPDX-License-Identifier: Apache-2.0
"""The kernel's table of neighbours, which all network namespaces of a host share: its size, and what a full one causes.

The kernel silently drops a packet to an address for which the table has no room (man 7 arp, `gc_thresh3`).
"""

from __future__ import annotations

import json
import shlex

import pytest

from tests.lab.conftest import REPORT, Lab

LIMITS = "net.ipv4.neigh.default.gc_thresh"
SIZES = {1: 8192, 2: 32768, 3: 65536}
FILLED = 8
NODE = "node1"
# The kernel makes room by removal of entries that did not change for 5 seconds, so these change every second.
FILL = f"""
turn=$((turn % 2 + 1))
for entry in $(seq {FILLED}); do echo "neigh replace 192.0.2.$entry lladdr 02:00:00:00:00:$turn dev filled"; done |
    ip -batch -
"""
KEEP_FILLED = f"while :; do {FILL} sleep 1; done"


def sizes(lab: Lab) -> dict[int, int]:
    return {number: int(lab.ssh(NODE, "sysctl", "-n", f"{LIMITS}{number}")) for number in SIZES}


@pytest.fixture
def full_table(lab: Lab):
    """A lab where one node's table is full of other entries; site.yml enlarges it again."""
    if not lab.ssh(NODE, "sysctl", "-a", "-r", f"^{LIMITS}3$"):
        pytest.skip("a container shares the table of this machine; DRIVER=uml and DRIVER=vm have their own")
    assert sizes(lab) == SIZES
    lab.ssh(NODE, f"ip link add filled type dummy && ip link set filled up && {FILL}")
    lab.ssh(NODE, "systemd-run", "--quiet", "--collect", "--unit=filled", "sh", "-c", shlex.quote(KEEP_FILLED))
    lab.ssh(NODE, "sysctl", "-q", "-w", f"{LIMITS}1=1", f"{LIMITS}2={FILLED}", f"{LIMITS}3={FILLED}")
    lab.ssh(NODE, "ip -all netns exec ip -4 neigh flush all")
    yield
    lab.ssh(NODE, "systemctl stop filled; ip link delete filled")
    lab.play("site.yml")


@pytest.mark.long
@pytest.mark.usefixtures("full_table")
def test_a_full_table_is_drift_and_a_problem_of_verify(lab: Lab) -> None:
    assert lab.play("audit.yml", success=False).code == 2
    drift = json.loads((REPORT / "audit.json").read_text())["hosts"]
    assert {name: len(host["drift"]) for name, host in drift.items()} == {"node1": 3, "node2": 0, "node3": 0}
    assert all("gc_thresh" in json.dumps(one) for one in drift[NODE]["drift"])
    assert lab.play("verify.yml", success=False).code == 2
    report = json.loads((REPORT / "verify.json").read_text())
    assert report["failures"]
    assert [line for line in report["problems"] if line.startswith(f"{NODE}: the kernel did not send ")]
    assert lab.play("site.yml").changed[NODE] == 1
    assert sizes(lab) == SIZES
    lab.play("verify.yml")
