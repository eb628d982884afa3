# SPDX-License-Identifier: Apache-2.0
"""A host is after `uninstall.yml` what it was before the first installation.

This needs hosts on which nothing was ever installed, so it runs before the other tests of the second lab, and leaves
node3 without Heddle; `site.yml` installs it again.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import pexpect
import pytest
import yaml

from tests.supervised import supervised

from .conftest import MANIFESTS, ROOT

NODE = "node3"
UNINSTALL = Path("playbooks/uninstall.yml").name
LIMIT = ("--limit", NODE)
FORCE = ("-e", "heddle_uninstall_force=true")
# What an operator can compare. Left out are files of packages, logs, and Ansible's own directory.
COMMANDS = {
    "packages": "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'; apt-mark showmanual",
    "unit files": "systemctl list-unit-files --no-legend --no-pager",
    "units": "systemctl list-units --all --no-legend --plain --no-pager --type=service,socket,timer,path",
    "users": "cat /etc/passwd /etc/group",
    "addresses": "ip -o address | sed 's/ valid_lft.*//'",
    "links": "ip -o link",
    "routes": "ip route show table all; ip -6 route show table all | sed 's/ expires [0-9]*sec//'",
    "rules": "ip rule; ip -6 rule",
    "neighbours": "ip neighbour show nud permanent",
    "namespaces": "ip netns list",
    "nftables": "nft list ruleset",
    "settings": "sysctl -a 2>/dev/null | grep -E '^net[.](ipv4[.]ip_forward|ipv[46][.](conf|neigh[.]default))'",
    "Open vSwitch": "ls /run/openvswitch /run/ovn /var/lib/openvswitch /var/lib/ovn /etc/openvswitch 2>&1",
    "texts": "find /etc /usr/local -xdev -type f -exec sha1sum {} + | sort -k 2",
    "files": (
        "find / -xdev '(' -path /proc -o -path /sys -o -path /usr/share -o -path /usr/lib -o -path /var/cache "
        "-o -path /var/log/journal -o -path /root/.ansible -o -path /tmp ')' -prune "
        "-o -type d -printf '%p %M %u %g\\n' -o -printf '%p %M %u %g %s %l\\n' | sort"
    ),
}
# The lab's own servers, which start with the first workload, and neighbour tables that devices fill by themselves.
PASSING = re.compile(r"standin-|\bsession-|\buser(?:-runtime-dir)?@|run-netns|/run/(?:systemd|log|user)|stable_secret")
# An operator's own, which are there before Heddle and after it.
FOREIGN = " && ".join([
    "ip link add br-lan type bridge", "sysctl -qw net.ipv6.conf.br-lan.disable_ipv6=1", "ip link set br-lan up",
    "ip address add 192.0.2.1/24 dev br-lan", "ip route add 198.51.100.0/24 via 192.0.2.9",
    "ip rule add from 192.0.2.0/24 lookup 77 priority 7700", "nft add table inet operator",
])  # fmt: skip
FOREIGN_REMOVED = "ip rule del priority 7700; ip link del br-lan; nft delete table inet operator"


def state(lab) -> dict[str, list[str]]:
    """Return what can be seen of the host, by what it is."""
    return {
        what: [
            " ".join(line.split())
            for line in lab.try_ssh(NODE, command).stdout.splitlines()
            if not PASSING.search(line)
        ]
        for what, command in COMMANDS.items()
    }


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    return [
        f"{what}: {line}"
        for what in COMMANDS
        for line in difflib.unified_diff(before[what], after[what], n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]


def test_host_is_as_before_the_installation(lab, tmp_path: Path):
    if lab.try_ssh(NODE, "test", "-e", "/usr/local/sbin/heddle-host").returncode == 0:
        pytest.skip("needs hosts before the first installation: python -m lab down, python -m lab up")
    lab.ssh(NODE, FOREIGN)
    try:
        installed_and_removed(lab, tmp_path)
    finally:
        lab.try_ssh(NODE, FOREIGN_REMOVED)
        lab.try_ssh("node2", "ovs-vsctl --if-exists del-br br-user")


def confirmed(answer: str) -> str:
    """Run the playbook at a terminal, answer its question, and return what it printed."""
    arguments = ["playbooks/uninstall.yml", "-e", f"heddle_manifests={MANIFESTS}", *LIMIT, *FORCE,
                 "-e", "heddle_uninstall_confirm=true"]  # fmt: skip
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "HEDDLE_LOG_DIRECTORY": ""}
    program, *arguments = supervised([ROOT / "scripts" / "play", *arguments])
    with pexpect.spawn(
        program, arguments, cwd=ROOT, env=environment, encoding="utf-8", timeout=1800, dimensions=(50, 200)
    ) as terminal:
        terminal.expect(f"Remove Heddle from {NODE}[?] yes continues, anything else stops")
        terminal.sendline(answer)
        terminal.expect(pexpect.EOF)
    return f"{terminal.before}\nended with {terminal.exitstatus}"


def installed_and_removed(lab, directory: Path) -> None:
    before = state(lab)
    assert all(before[what] for what in ("packages", "addresses", "files"))

    # An empty host: nothing to remove, nothing written.
    assert lab.play(UNINSTALL, *LIMIT).changed == {NODE: 0}
    assert not differences(before, state(lab))

    # This host's part of the provider network has a tag.
    more = directory / "more.yml"
    more.write_text(yaml.safe_dump({"all": {"hosts": {NODE: {"heddle_provider_vlan": 7}}}}))
    lab.play("site.yml", "-i", "inventories/lab", "-i", str(more))
    installed = state(lab)
    assert any("br-ex" in line for line in installed["links"])
    assert any("heddle-host" in line for line in installed["unit files"])

    refused = lab.play(UNINSTALL, *LIMIT, success=False)
    assert refused.code
    assert "give them another node in the manifests" in refused.output
    checked = lab.play(UNINSTALL, *LIMIT, *FORCE, "--check", "--diff")
    assert "delete Open_vSwitch Bridge br-ex" in checked.output
    assert "delete host file /usr/local/sbin/heddle-host" in checked.output
    assert lab.ssh(NODE, "heddle-host status").startswith("plan ")

    lab.ssh("node2", "ovs-vsctl add-br br-user")
    foreign = lab.play(UNINSTALL, "--limit", "node2", "--check", success=False)
    assert "Open vSwitch came with Heddle and has 1 bridge (br-user)" in " ".join(foreign.output.split())

    assert "not confirmed; nothing was removed" in confirmed("no")
    assert lab.ssh(NODE, "heddle-host status").startswith("plan ")
    removed = confirmed("yes")
    assert "node1, node2 still have these hosts as chassis" in " ".join(removed.split())
    assert removed.endswith("ended with 0")
    assert not differences(before, state(lab))
    assert lab.play(UNINSTALL, *LIMIT, *FORCE).changed == {NODE: 0}
    # The lab's DNS server still runs in the removed namespace; it starts in the next one of this name.
    lab.ssh(NODE, "systemctl", "stop", "standin-dns.service")
