# SPDX-License-Identifier: Apache-2.0
"""Migration from Coil v1 on the lab's hosts: what ran keeps its address and its packets, host by host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import MANIFESTS, ROOT, Lab

MIGRATE = Path("playbooks/coil_migrate.yml").name
DUMP = ROOT / "tests" / "unit" / "controllers" / "coil" / "v1_dump.json"
# A pod of Coil v1 as its node program makes it: tables, protocol and link of its documentation.
POD = """ip netns add pod &&
ip link add veth1 type veth peer name eth0 netns pod && ip link set veth1 up &&
ip -n pod link set eth0 up && ip -n pod addr add 10.64.0.5/32 dev eth0 &&
ip addr add 169.254.1.1/32 dev veth1 && ip -n pod route add 169.254.1.1 dev eth0 &&
ip -n pod route add default via 169.254.1.1 && ip route add 10.64.0.5 dev veth1 table 116 proto 30 &&
ip rule add pref 2000 table 116
"""


@pytest.fixture(scope="module")
def manifests(lab: Lab, tmp_path_factory) -> Iterator[Path]:
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("v1") / "manifests")
    lab.ssh("node1", POD)
    yield directory
    lab.try_ssh("node1", "ip link del veth1; ip netns del pod; ip rule del pref 2000 table 116")
    lab.play("networks.yml")


def reaches(lab: Lab, address: str) -> bool:
    return lab.try_ssh("node1", "ping", "-n", "-c", "1", "-W", "2", address).returncode == 0


@pytest.mark.long
def test_host_by_host(lab, manifests):
    more = ("-e", f"heddle_coil_dump={DUMP}")
    assert reaches(lab, "10.64.0.5")
    lab.play(MIGRATE, *more, manifests=manifests)
    assert reaches(lab, "10.64.0.5")
    assert set(lab.play(MIGRATE, *more, manifests=manifests).changed.values()) == {0}
    lab.ssh("node1", "ip netns del pod; ip link del veth1 2>/dev/null; true")
    lab.play(MIGRATE, *more, "-e", "heddle_coil_replaced=node1", manifests=manifests)
    assert "10.64.0.5/32" in lab.ssh("node1", "ip -n tools_build -brief address show eth0")
    assert reaches(lab, "10.64.0.5")
    refused = lab.play(MIGRATE, *more, manifests=manifests, success=False)
    assert refused.code
    assert "block 0 of default is in use on node node1" in refused.output
