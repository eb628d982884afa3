# SPDX-License-Identifier: Apache-2.0
"""An encrypted mesh on hosts whose kernel has ESP: what is on the wire, other keys, and nothing left afterwards."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests.lab.capture import captured
from tests.lab.conftest import MANIFESTS, NODES

DROP_IN = "/etc/systemd/system/heddle-mesh.service.d/test.conf"
REKEY_SECONDS = 3
ECHOES = 500
# AF_PACKET sees neither a packet before ESP was put around it nor one after it was removed.
ON_THE_WIRE = "esp or udp port 6784"
pytestmark = pytest.mark.long


def fabric(encryption: str) -> str:
    text = (MANIFESTS / "mesh.yml").read_text()
    subnets = '  subnets: [10.77.0.0/24, "fd00:10:77::/64"]\n'
    assert subnets in text
    return text.replace(subnets, f"{subnets}  encryption: {encryption}\n")


def connections(lab, node: str) -> dict[str, dict]:
    """What the daemon of a node reports by the other node; empty while it does not answer."""
    shown = lab.try_ssh(node, "heddle-host", "mesh", "status", "--json").stdout
    return {one["node"]: one for one in json.loads(shown)["connections"]} if shown else {}


def wait_overlays(lab, wanted: dict[tuple[str, str], str], encrypted: bool) -> None:
    """Wait until each pair sends over an overlay."""
    found = {}
    for _attempt in attempts(600):
        states = {node: connections(lab, node) for node in {one for one, _other in wanted}}
        found = {
            (one, other): (states[one].get(other, {}).get("overlay"), states[one].get(other, {}).get("encrypted"))
            for one, other in wanted
        }
        if found == {pair: (overlay, encrypted) for pair, overlay in wanted.items()}:
            return
    pytest.fail(f"overlays: {found}")


PAIRS = [(one, other) for one in NODES for other in NODES if one != other]


def xfrm(lab, node: str) -> str:
    return lab.ssh(node, "ip xfrm state list nokeys; ip xfrm policy list")


def indices(lab, node: str) -> set[str]:
    return set(re.findall(r"spi (0x\w+)", xfrm(lab, node)))


def addresses(lab) -> dict[str, list[str]]:
    """Addresses of the workloads on the mesh by their nodes."""
    plan = lab.plan()
    return {
        workload["node"]: [one.split("/")[0] for one in interface["addresses"]]
        for workload in plan["workloads"].values()
        for interface in workload["interfaces"]
        if interface["network"] == "woven_fabric"
    }


def ping(lab, node: str, address: str, *options: str) -> str:
    inside = ("ip", "netns", "exec", f"woven_woven{node[-1]}")
    return lab.try_ssh(node, *inside, "ping", "-nq", *options, address).stdout


def overlay_changes(lab) -> dict[str, list[str]]:
    """What the daemons have logged of overlays that changed, by node."""
    shown = {node: lab.ssh(node, "journalctl -u heddle-mesh --output=cat") for node in NODES[:2]}
    return {node: [line for line in text.splitlines() if ", before over " in line] for node, text in shown.items()}


def no_echo_is_lost(lab, address: str) -> None:
    """Send echoes from node1 to a workload of node2. A loss counts unless the overlay changed, as on busy hosts."""
    report = ""
    for _attempt in attempts(600):
        before = overlay_changes(lab)
        report = ping(lab, "node1", address, "-i0.02", f"-c{ECHOES}", "-W30")
        if f"{ECHOES} packets transmitted, {ECHOES} received" in report:
            return
        assert overlay_changes(lab) != before, report
    pytest.fail(f"the overlay changed during each attempt: {report}")


@pytest.fixture(scope="module")
def encrypted(lab, tmp_path_factory):
    if lab.try_ssh("node1", "modprobe -n esp4").returncode:
        pytest.skip("this kernel has no ESP; User Mode Linux has")
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("mesh") / "manifests")
    for node in NODES:
        text = f"[Service]\\nEnvironment=HEDDLE_MESH_REKEY_SECONDS={REKEY_SECONDS}\\n"
        lab.ssh(node, f"mkdir -p $(dirname {DROP_IN}) && printf '{text}' > {DROP_IN} && systemctl daemon-reload")
        lab.ssh(node, "systemctl restart heddle-mesh")
    (directory / "mesh.yml").write_text(fabric("esp"))
    lab.play("networks.yml", manifests=directory)
    wait_overlays(lab, dict.fromkeys(PAIRS, "fastdp"), encrypted=True)
    yield directory
    for node in NODES:
        lab.ssh(node, f"rm -r $(dirname {DROP_IN}) && systemctl daemon-reload")
    lab.play("networks.yml")
    wait_overlays(lab, dict.fromkeys(PAIRS, "fastdp"), encrypted=False)
    assert [xfrm(lab, node) for node in NODES] == ["", "", ""]


def test_the_wire_has_esp_only_and_no_echo_is_lost_while_keys_change(lab, encrypted):
    before = indices(lab, "node1")
    with captured(lab, "node1", ON_THE_WIRE) as lines:
        for address in addresses(lab)["node2"]:
            no_echo_is_lost(lab, address)
    assert [line for line in lines if "ESP(spi=" not in line] == []
    assert len(lines) > 2 * len(addresses(lab)["node2"]) * ECHOES
    assert not before & indices(lab, "node1")


def test_a_second_run_changes_nothing_and_verify_passes(lab, encrypted):
    assert set(lab.play("networks.yml", manifests=encrypted).changed.values()) == {0}
    lab.play("verify.yml", manifests=encrypted)


def test_packets_in_clear_are_not_accepted(lab, encrypted):
    """A host that lost its policy sends in clear: its heartbeats are dropped, and frames go over the fallback."""
    own = json.loads(lab.ssh("node2", "heddle-host", "mesh", "status", "--json"))["address"]
    assert ":" not in own
    lab.ssh("node2", f"ip xfrm policy delete src {own}/32 dst 0.0.0.0/0 proto udp dport 6784 dir out")
    try:
        wait_overlays(lab, {("node2", "node1"): "sleeve", ("node1", "node2"): "fastdp"}, encrypted=True)
        assert ", 0% packet loss" in ping(lab, "node2", addresses(lab)["node1"][0], "-c3", "-W30")
    finally:
        lab.ssh("node2", "systemctl restart heddle-mesh")
    wait_overlays(lab, dict.fromkeys(PAIRS, "fastdp"), encrypted=True)
