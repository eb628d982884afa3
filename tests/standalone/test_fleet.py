# SPDX-License-Identifier: Apache-2.0
"""The life of a fleet with the tarball alone, on the hosts of a lab without Heddle, from site to uninstall.

The tests build on each other, in this order. The cluster begins with the old Layer2 topology, so that there is
something to upgrade.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from .conftest import ROOT, User, new_user

NODES = (1, 2, 3)
OLD = ("-e", '{"heddle_settings": {"layer2_topology": "gateway-router", "dynamic_networks_grace_period": 0}}')
MANIFESTS = """\
apiVersion: v1
kind: Namespace
metadata: {name: red, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: red}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24, "fd00:10::/64"]}}
---
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: blue}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24, "fd00:10::/64"]}}
"""
VIRTUAL_MACHINE = """\
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: vm1, namespace: red}
spec: {kind: vm, node: node2}
"""
_RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)", re.MULTILINE)


def inventory() -> dict:
    """Return the inventory, with all variables that README lists as needed, of hosts of a lab."""
    lab = Path(os.environ.get("LAB_DIR") or ROOT / ".lab")
    prefix = os.environ.get("LAB_NETWORK_PREFIX") or "198.18"
    prefix6 = os.environ.get("LAB_NETWORK_PREFIX6") or "fd00:6864"
    nodes = {
        f"node{number}": {
            "heddle_encap_ips": [f"{prefix}.1.{number}"],
            "heddle_addresses": [f"{prefix}.2.{number}", f"{prefix6}:2::{number}"],
        }
        for number in NODES
    }
    external = {"heddle_addresses": [f"{prefix}.2.20", f"{prefix6}:2::20"]}
    return {
        "all": {
            "vars": {
                "ansible_user": "root",
                "ansible_python_interpreter": "/usr/bin/python3",
                "ansible_ssh_common_args": f"-F {lab}/ssh_config",
                "ansible_ssh_args": "-C",
                "ansible_host_key_checking": False,
                "heddle_deployment": "mine",
                "heddle_manifests": "manifests",
            },
            "children": {
                "heddle_nodes": {
                    "hosts": nodes,
                    "vars": {
                        "heddle_underlay_interface": "eth1",
                        "heddle_uplink": "eth2",
                        "heddle_provider_next_hops": [f"{prefix}.2.20", f"{prefix6}:2::20"],
                    },
                },
                "heddle_state": {"hosts": {"node1": None}},
                "heddle_external": {"hosts": {"external": external}},
            },
        }
    }


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user who installed ansible-core with pip and wrote an inventory and manifests."""
    found = new_user(tmp_path_factory.mktemp("user"), pip=True)
    (found.directory / "hosts.yml").write_text(yaml.safe_dump(inventory()))
    (found.directory / "manifests").mkdir()
    workloads = "".join(
        "---\napiVersion: heddle.dev/v1\nkind: Workload\n"
        f"metadata: {{name: w{number}, namespace: {namespace}}}\nspec: {{node: node{number}, movable: true}}\n"
        for namespace in ("red", "blue")
        for number in NODES
    )
    (found.directory / "manifests" / "all.yml").write_text(MANIFESTS + workloads)
    return found


def play(user: User, name: str, *arguments: str, success: bool = True) -> str:
    """Run a playbook of the collection on all hosts, and return what it printed."""
    shown = user.ansible("playbook", f"heddle.ovn.{name}", "-i", "hosts.yml", *arguments, success=success)
    print(shown[-3000:])
    return shown


def changed(shown: str) -> dict[str, int]:
    return {match[1]: int(match[3]) for match in _RECAP.finditer(shown) if int(match[3])}


def test_site_installs_hosts_and_changes_nothing_the_second_time(user: User):
    play(user, "site", *OLD)
    assert changed(play(user, "site", *OLD)) == {}


@pytest.mark.parametrize("playbook", ["verify", "audit", "status"])
def test_the_networks_work(user: User, playbook: str):
    play(user, playbook)


def test_reports_are_in_the_current_directory(user: User):
    report = json.loads((user.directory / "report" / "verify.json").read_text())
    assert report["passed"]
    assert json.loads((user.directory / "report" / "audit.json").read_text())["passed"]


def test_the_upgrade_writes_its_page(user: User):
    play(user, "upgrade_layer2", "--check")
    play(user, "upgrade_layer2")
    page = (user.directory / "report" / "upgrade_layer2.html").read_text()
    assert "<svg" in page
    assert json.loads((user.directory / "report" / "upgrade_layer2.json").read_text())["failures"] == []
    assert not (user.installed / "report").exists()


@pytest.mark.parametrize("playbook", ["verify", "audit", "state_backup"])
def test_the_upgraded_networks_work(user: User, playbook: str):
    play(user, playbook)


def test_a_virtual_machine_moves(user: User):
    with (user.directory / "manifests" / "all.yml").open("a") as manifests:
        manifests.write(VIRTUAL_MACHINE)
    play(user, "networks")
    play(user, "migrate_workload", "-e", "workload=red/vm1", "-e", "to=node3")
    moved = json.loads((user.directory / "report" / "migrate_workload.json").read_text())
    assert (moved["from"], moved["to"]) == ("node2", "node3")


def test_a_backup_is_restored(user: User):
    (backup,) = (user.directory / "backup").iterdir()
    assert backup.name.startswith("mine-")
    name = ("-e", f"heddle_backup_file=backup/{backup.name}")
    # The database has a virtual machine more than the backup.
    assert "heddle_restore_overwrite" in play(user, "state_restore", *name, success=False)
    play(user, "state_restore", *name, "-e", "heddle_restore_overwrite=true")
    play(user, "networks")
    play(user, "audit")


def test_uninstall_is_refused_while_workloads_run(user: User):
    shown = play(user, "uninstall", success=False)
    # The upgrade has moved some.
    assert re.search(r"node\d has \d workloads \((blue|red)/w\d, ", shown)
    assert re.search(r"node\d runs 1 virtual machine \(red_vm1\): move them with heddle.ovn.migrate_workload", shown)
    assert "objects removed" not in shown


def test_uninstall_goes_on_without_a_host_that_does_not_answer(user: User):
    (user.directory / "manifests" / "all.yml").write_text(MANIFESTS)
    play(user, "networks")
    (user.directory / "away.yml").write_text("all: {hosts: {node3: {ansible_host: nowhere.invalid}}}\n")
    shown = play(user, "uninstall", "-i", "away.yml", success=False)
    assert "node3 does not answer and keeps Heddle" in shown
    assert "heddle.ovn.uninstall --limit node3" in shown
    assert set(changed(shown)) == {"node1", "node2"}


def test_uninstall_removes_heddle_and_changes_nothing_the_second_time(user: User):
    assert set(changed(play(user, "uninstall", "--limit", "node3"))) == {"node3"}
    assert changed(play(user, "uninstall")) == {}
    shown = user.ansible(
        "adhoc", "heddle_nodes", "-i", "hosts.yml", "-m", "command", "-a", "ls /var/lib /etc/systemd/system"
    )
    assert "heddle" not in shown
