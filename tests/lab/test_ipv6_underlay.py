# SPDX-License-Identifier: Apache-2.0
"""A fleet whose tunnels end at IPv6 addresses, from empty hosts: encapsulation chosen, mesh encrypted, and uninstalled.

It takes Heddle off the lab's hosts first, and installs it as it was at the end.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.capture import captured
from tests.lab.conftest import MANIFESTS, NODES, REPORT, Lab
from tests.lab.test_encapsulation import UNDERLAY, stored_paths, wait_for
from tests.lab.test_mesh_encryption import ON_THE_WIRE, PAIRS, addresses, fabric, ping, wait_overlays, xfrm

pytestmark = pytest.mark.long
# The hosts' second address on the underlay.
SETTINGS = {
    "heddle_encap_ips": ["{{ (heddle_underlay_addresses | last).split('/') | first }}"],
    "heddle_encapsulation_type": "auto",
}
CHOSEN = ("-e", json.dumps(SETTINGS))
FORCE = ("-e", "heddle_uninstall_force=true")
LEAVING = "node3"
ECHOES = 20
# Bytes of an IP packet that still passes: less than a network of 1,400 needs over IPv6.
HOLE = 1300
# Which Heddle's own are, besides those of OVN and of the service of a host.
TRACES = (
    "ls -d /var/lib/heddle /etc/systemd/system/heddle* /run/heddle /usr/local/sbin/heddle-host 2>/dev/null; "
    "ip -o link | grep -E 'br-mesh|vxlan_sys|genev_sys'; ip netns list; "
    "ss -Hlnptu | grep -E ':(6081|6783|6784) '; true"
)
# An IPsec policy of the operator, which is none of the mesh.
FOREIGN = "src 192.0.2.0/24 dst 203.0.113.0/24 dir out"


@pytest.fixture(scope="module")
def empty(lab: Lab) -> Iterator[None]:
    """Hosts without Heddle, whose kernel has ESP and Open vSwitch's datapath."""
    if lab.try_ssh("node1", "modprobe -n esp6").returncode:
        pytest.skip("this kernel has no ESP; User Mode Linux has")
    lab.uninstall()
    yield
    lab.uninstall()
    lab.play("site.yml")


@pytest.fixture(scope="module")
def manifests(tmp_path_factory) -> Path:
    return shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("underlay") / "manifests")


@pytest.fixture(scope="module")
def installed(lab: Lab, empty: None, manifests: Path) -> str:
    """Return what a check on empty hosts printed, before they were installed."""
    checked = lab.play("site.yml", *CHOSEN, "--check", "--diff", manifests=manifests)
    assert lab.try_ssh("node1", "test -e /var/lib/heddle").returncode
    lab.play("site.yml", *CHOSEN, manifests=manifests)
    return checked.output


def test_a_check_on_empty_hosts_measures_and_chooses(installed):
    """Probes need nothing that would have to be installed."""
    shown = re.sub(r"[^a-z0-9:]+", " ", installed)
    assert " mtu: 1400 type: geneve " in shown
    assert f" geneve: {UNDERLAY} vxlan: {UNDERLAY} " in shown


def test_the_encapsulation_is_chosen_over_ipv6(lab, installed, manifests):
    found = lab.plan()
    assert all(":" in one["encap_ips"][0] for one in found["nodes"].values())
    assert found.get("encapsulation", "geneve") == "geneve"
    assert found["networks"]["default"]["mtu"] == 1400
    carried = {"geneve": UNDERLAY, "vxlan": UNDERLAY}
    assert stored_paths(lab) == {node: {other: carried for other in NODES if other != node} for node in NODES}
    assert set(lab.play("site.yml", *CHOSEN, manifests=manifests).changed.values()) == {0}
    # The service receives where Open vSwitch's kernel datapath has its tunnels.
    lab.ssh("node1", "test -d /sys/class/net/genev_sys_6081")
    lab.play("verify.yml", *CHOSEN, manifests=manifests)
    assert json.loads((REPORT / "verify.json").read_text())["passed"]
    lab.play("audit.yml", *CHOSEN, manifests=manifests)


def test_a_path_that_shrinks_is_reported(lab, installed, manifests):
    paths = [("node1", "node2"), ("node2", "node1")]
    for pair in paths:
        wait_for(lab, *pair, lambda one: one["size"] == one["needed"])
    lab.verb("lose", "--blackhole", "node1", "node2", str(HOLE))
    try:
        for pair in paths:
            wait_for(lab, *pair, lambda one: one["size"] == HOLE)
    finally:
        lab.verb("lose")
    for pair in paths:
        wait_for(lab, *pair, lambda one: one["size"] == one["needed"])


def test_esp_over_ipv6(lab, installed, manifests):
    (manifests / "mesh.yml").write_text(fabric("esp"))
    lab.play("networks.yml", *CHOSEN, manifests=manifests)
    wait_overlays(lab, dict.fromkeys(PAIRS, "fastdp"), encrypted=True)
    with captured(lab, "node1", ON_THE_WIRE) as lines:
        for address in addresses(lab)["node2"]:
            # As many as are needed for so many answers: a busy lab loses frames of its underlay.
            assert f" {ECHOES} received" in ping(lab, "node1", address, "-i0.1", f"-c{ECHOES}", "-w600")
    assert [line for line in lines if " IP6 " not in line or "ESP(spi=" not in line] == []
    assert len(lines) >= 4 * ECHOES


def test_uninstall_of_an_encrypted_mesh_leaves_nothing(lab, installed, manifests):
    """Neither keys in the kernel, nor certificates, bridge, units, ports; IPsec of the operator stays."""
    assert "reqid 6784" in xfrm(lab, LEAVING)
    lab.ssh(LEAVING, f"ip xfrm policy update {FOREIGN} action allow")
    files = lab.ssh(LEAVING, "find /var/lib/heddle/mesh -name '*.pem'").split()
    assert len(files) >= 3
    checked = lab.play("uninstall.yml", *CHOSEN, *FORCE, "--limit", LEAVING, "--check", "--diff", manifests=manifests)
    assert "delete kernel xfrm" in checked.output
    assert "reqid 6784" in xfrm(lab, LEAVING)
    lab.play("uninstall.yml", *CHOSEN, *FORCE, "--limit", LEAVING, manifests=manifests)
    assert lab.ssh(LEAVING, TRACES) == ""
    left = xfrm(lab, LEAVING)
    assert "reqid" not in left
    assert "203.0.113.0/24" in left
    lab.ssh(LEAVING, f"ip xfrm policy delete {FOREIGN}")
    again = lab.play("uninstall.yml", *CHOSEN, *FORCE, "--limit", LEAVING, manifests=manifests)
    assert again.changed == {LEAVING: 0}
    # The other hosts go on, encrypted.
    wait_overlays(lab, {("node1", "node2"): "fastdp", ("node2", "node1"): "fastdp"}, encrypted=True)
    assert ", 0% packet loss" in ping(lab, "node1", addresses(lab)["node2"][0], "-c3", "-W30")
