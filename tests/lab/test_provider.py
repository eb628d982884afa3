# SPDX-License-Identifier: Apache-2.0
"""The uplink is removed from the inventory and added again: IP configuration and external connectivity follow."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.lab.conftest import NODES

NONE = ("-e", '{"heddle_uplink": ""}')


def kernel_has(lab, node: str) -> str:
    """Return what Heddle's gateways leave in the kernel and on the provider's bridge, and devices of addresses."""
    commands = (
        "ip -o address | grep 'proto 0x55'", "ip route show table all | grep 'proto 85'",
        "ip -6 route show table all | grep 'proto 85'", "ip rule | grep 'proto 85'", "ip -6 rule | grep 'proto 85'",
        "ip neighbour show nud permanent | grep 'proto 85'", "nft list tables | grep -v heddle-userspace",
        "ip -o link show type vrf",
        "ovs-ofctl --no-stats dump-flows br-ex | grep -v 'cookie=0x0,' | grep cookie",
        "ovs-vsctl list-ports br-int | grep ovn-k8s-mp",
        "ovs-vsctl get Open_vSwitch . external_ids:ovn-bridge-mappings | grep physnet",
    )  # fmt: skip
    return "".join(lab.try_ssh(node, command).stdout for command in commands)


def addresses(lab, node: str, device: str) -> list[str]:
    lines = lab.ssh(node, f"ip -o address show dev {device} scope global").splitlines()
    return sorted(line.split()[3] for line in lines if "proto 0x55" not in line)


@pytest.fixture
def over_the_uplink(lab, tmp_path):
    """Return the options with which Ansible reaches the nodes at provider addresses, through the external host."""
    known = lab.directory / "ssh_config"
    shared = re.search(r"ControlPath (.*)%n", known.read_text())[1]
    own = "".join(
        f"Host {node}\n    HostName {own_address(lab, node)}\n    ProxyCommand ssh -F {known} -W %h:22 external\n"
        f"    ControlPath {shared}%n-uplink.ssh\n"
        for node in NODES
    )
    config = tmp_path / "ssh_config"
    # ssh takes the first value that it finds.
    config.write_text(own + known.read_text())
    yield "-e", json.dumps({"ansible_ssh_common_args": f"-F {config}"})
    for node in NODES:
        subprocess.run(["ssh", "-F", str(config), "-O", "exit", node], capture_output=True, check=False)


def own_address(lab, node: str) -> str:
    """Return the node's IPv4 address on the provider's network."""
    return next(found for found in addresses(lab, node, "br-ex") if "." in found).partition("/")[0]


@pytest.fixture(scope="module")
def uplink_comes_back(lab):
    yield
    lab.play("site.yml")


@pytest.mark.long
def test_uplink_is_detached_and_attached_again_by_separate_playbooks(lab, uplink_comes_back, over_the_uplink):
    """Attach and detach while the uplink carries the SSH session."""
    before, own = lab.dump(), {node: addresses(lab, node, "br-ex") for node in NODES}
    announced = lab.play("site.yml", "--check", "--diff", *NONE)
    assert all(announced.changed[node] for node in NODES)
    assert lab.dump() == before
    lab.play("site.yml", *NONE, *over_the_uplink)
    for node in NODES:
        assert kernel_has(lab, node) == ""
        assert addresses(lab, node, "eth2") == own[node]
        assert addresses(lab, node, "br-ex") == []
        # The kernel receives on the uplink again.
        assert "eth2" not in lab.try_ssh(node, "nft list table inet heddle-userspace").stdout
    again = lab.play("site.yml", "--diff", *NONE)
    assert set(again.changed.values()) == {0}, again.output

    # The bridge stays for Localnet networks; so only the plan of the second playbook has the uplink.
    lab.play("install.yml", *over_the_uplink)
    assert "differs from the inventory. The plan keeps" not in lab.play("networks.yml", *over_the_uplink).output
    for node in NODES:
        assert addresses(lab, node, "br-ex") == own[node]
    assert lab.dump() == before
    assert set(lab.play("site.yml").changed.values()) == {0}
    lab.play("verify.yml")


@pytest.mark.long
def test_uplink_that_is_not_installed_yet_is_not_in_the_plan(lab, uplink_comes_back):
    lab.play("install.yml", *NONE)
    lab.play("networks.yml", *NONE)
    reported = lab.play("networks.yml")
    assert reported.output.count("differs from the inventory. The plan keeps") == len(NODES)
    assert set(reported.changed.values()) == {0}
