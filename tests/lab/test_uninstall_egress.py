# SPDX-License-Identifier: Apache-2.0
"""`uninstall.yml` of a host that has an EgressIP on another NIC and is the host of an EgressService: nothing stays."""

from __future__ import annotations

import shutil

import pytest

from tests.lab.conftest import MANIFESTS, Lab
from tests.lab.tenants import egress_ip

NODE, NIC, EGRESS = "node3", "eth3", "203.0.113.100"
FORCE = ("--limit", NODE, "-e", "heddle_uninstall_force=true")
OBJECTS = """---
apiVersion: v1
kind: Namespace
metadata: {name: apart}
---
apiVersion: v1
kind: Namespace
metadata: {name: mint}
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: a, namespace: apart}
spec: {node: node1}
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: b, namespace: mint, labels: {app: web}}
spec: {node: node1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: mint}
spec: {type: LoadBalancer, ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: k8s.ovn.org/v1
kind: EgressService
metadata: {name: web, namespace: mint}
spec: {nodeSelector: {matchLabels: {kubernetes.io/hostname: node3}}}
"""
pytestmark = pytest.mark.long
COMMANDS = (
    "ip rule; ip -6 rule",
    "for one in 4 6; do ip -$one route show table all | grep -v 'table local\\|fe80\\|ff00'; done",
    f"ip -o address show {NIC} | sed 's/ valid_lft.*//; s/ tentative//'",
    "nft list ruleset | grep -i egress",
)


def state(lab: Lab) -> list[str]:
    """What the kernel has of egress addresses: rules, routes, addresses of the NIC, nftables."""
    return [line for command in COMMANDS for line in lab.try_ssh(NODE, command).stdout.splitlines()]


def test_nothing_of_egress_addresses_is_left(lab: Lab, request, tmp_path):
    far = "apart-far"
    lab.ssh(
        NODE,
        f"ip link add {NIC} type veth peer name {far} && ip link set {NIC} up && ip link set {far} up && "
        f"ip address add 203.0.113.13/24 dev {NIC} && ip address add 2001:db8:3::13/64 dev {NIC} nodad",
    )
    request.addfinalizer(lambda: lab.play("site.yml"))
    request.addfinalizer(lambda: lab.try_ssh(NODE, f"ip link delete {NIC}"))
    own = [line for line in state(lab) if NIC in line]
    directory = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    (directory / "apart.yml").write_text(OBJECTS + egress_ip("apart", EGRESS))
    lab.play("networks.yml", manifests=directory)
    plan = lab.plan()
    assert plan["egress_services"]["default"]["mint/web"]["host"] == NODE
    [address] = plan["egress_ips"]["apart"]["addresses"]
    assert (address["node"], address["nic"]) == (NODE, NIC)
    held = state(lab)
    for mark in (EGRESS, "6000:", "egress-services-snat", "egress-ip-snat"):
        assert any(mark in line for line in held), mark
    checked = lab.play("uninstall.yml", *FORCE, "--check", "--diff")
    assert EGRESS in checked.output
    assert state(lab) == held
    lab.play("uninstall.yml", *FORCE)
    left = state(lab)
    assert sorted(line for line in left if NIC in line) == sorted(own)
    for mark in ("egress", "6000:", "5999:", "5000:", EGRESS):
        assert not [line for line in left if mark in line], mark
    assert lab.play("uninstall.yml", *FORCE).changed == {NODE: 0}
