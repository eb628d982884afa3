# SPDX-License-Identifier: Apache-2.0
"""Primary MeshNetworks: two tenants with one subnet, whose workloads reach each other and, by their hosts, outside."""

from __future__ import annotations

import shlex
import shutil

import pytest

from tests.lab.conftest import MANIFESTS, NODES
from tests.lab.test_gateways import IDENTIFIER, assert_separate, external, has_vrf, node_address
from tests.lab.test_mesh_encryption import PAIRS, wait_overlays
from tests.lab.test_network_life import SPACE, WORKLOAD, condition_of, kernel, status, unchanged

NETWORK = """
apiVersion: heddle.dev/v1
kind: MeshNetwork
metadata: {name: net, namespace: %s}
spec: {role: Primary, subnets: [10.78.0.0/24, "fd00:10:78::/64"]}
---
"""
TENANTS = ("warp", "weft")
# In both tenants: the gateway has the first address, the workload of node1 the second one.
GATEWAY, FAR = ("10.78.0.1", "fd00:10:78::1"), ("10.78.0.3", "fd00:10:78::3")
pytestmark = pytest.mark.long


def tenant(name: str) -> str:
    workloads = "".join(WORKLOAD % (f"{name}{number}", name, f"node{number}") for number in (1, 2))
    return SPACE % name + NETWORK % name + workloads


def switch(lab) -> list[str]:
    """What the hosts have of Open vSwitch: bridges and ports, without the patch ports of ovn-controller."""
    command = "for bridge in $(ovs-vsctl list-br); do echo $bridge; ovs-vsctl list-ports $bridge; done"
    return [
        sorted(line for line in lab.ssh(node, command).splitlines() if not line.startswith("patch-")) for node in NODES
    ]


@pytest.fixture(scope="module")
def before(lab):
    """The hosts without the tenants."""
    return kernel(lab), switch(lab), lab.dump()


@pytest.fixture(scope="module")
def tenants(lab, before, tmp_path_factory):
    """The lab's manifests and the two tenants; afterwards the lab has its own again."""
    manifests = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("primary") / "manifests")
    (manifests / "primary.yml").write_text("".join(map(tenant, TENANTS)))
    lab.play("networks.yml", manifests=manifests)
    yield manifests
    lab.play("networks.yml")


@pytest.fixture
def routed(lab, tenants):
    if not has_vrf(lab):
        pytest.skip("this kernel has no VRFs; User Mode Linux has")
    return tenants


def answers(lab, name: str, *addresses: str) -> list[bool]:
    """Whether addresses answer a workload on node1."""
    inside = ("ip", "netns", "exec", f"{name}_{name}1")
    return [not lab.try_ssh("node1", *inside, "ping", "-nqc2", "-W5", one).returncode for one in addresses]


def test_workloads_of_a_tenant_reach_each_other(lab, tenants):
    for name in TENANTS:
        assert answers(lab, name, *FAR) == [True, True]
    # Both have the same addresses: without its own, the workload of one tenant does not reach that of the other.
    lab.ssh("node2", "ip -n weft_weft2 link set ovn-udn1 down")
    try:
        assert (answers(lab, "warp", *FAR), answers(lab, "weft", *FAR)) == ([True, True], [False, False])
    finally:
        lab.ssh("node2", "heddle-host apply")
    assert answers(lab, "weft", *FAR) == [True, True]


def test_a_kernel_without_vrfs_is_reported_and_carries_the_network(lab, tenants):
    if has_vrf(lab):
        pytest.skip("this kernel has VRFs")
    lab.play("status.yml", manifests=tenants)
    found = condition_of(status(), "MeshNetwork/warp/net")
    assert found["PartialFailure"]["reason"] == "VRFsNotSupported"
    assert found["NetworkReady"]["status"] == "True"
    assert "default" not in lab.ssh("node1", "ip -n warp_warp1 route")
    lab.play("verify.yml", manifests=tenants)
    unchanged(lab, tenants)


def test_the_host_answers_as_the_gateway_only(lab, routed):
    for name in TENANTS:
        assert answers(lab, name, *GATEWAY) == [True, True]
        assert answers(lab, name, node_address(4), node_address(6)) == [False, False]


@pytest.mark.parametrize("number", [4, 6], ids=["IPv4", "IPv6"])
def test_equal_connections_of_two_tenants_stay_separate(lab, routed, number):
    workloads = {name: f"{name}_{name}1" for name in TENANTS}
    assert_separate(lab, workloads, (IDENTIFIER, IDENTIFIER), number)


def test_verify_audit_and_a_second_run(lab, routed):
    unchanged(lab, routed)
    announced = lab.play("networks.yml", "--check", "--diff", manifests=routed)
    assert set(announced.changed.values()) == {0}
    lab.play("verify.yml", manifests=routed)
    lab.play("audit.yml", manifests=routed)


# Tampering with the first tenant on node1, and what the audit says about it.
TAMPERING = {
    "port": ("ovs-vsctl del-port br-mesh ovn-k8s-mp{id}", "ovn-k8s-mp{id}"),
    "VRF": ("ip link del mp{id}-udn-vrf", "mp{id}-udn-vrf"),
    "address": ("ip address del 10.78.0.1/24 dev ovn-k8s-mp{id}", "10.78.0.1/24"),
    "default route": ("ip route del default vrf mp{id}-udn-vrf", "0.0.0.0/0"),
    "route to services": ("ip route del unreachable 10.244.0.0/16 vrf mp{id}-udn-vrf", "10.244.0.0/16"),
    "rule": ("ip rule del fwmark $((4096 + {id}))", "rule"),
    "masquerade": ("nft flush chain inet heddle mesh-masquerade", "mesh-masquerade"),
    "zone": ("nft flush chain inet heddle mesh-zone", "mesh-zone"),
    "isolation": ("nft flush chain inet heddle mesh-forward", "mesh-forward"),
}


def test_tampering_is_found_and_repaired(lab, routed):
    number = status()["networks"]["warp_net"]["id"]
    lab.ssh("node1", "systemctl", "stop", "heddle-host")
    try:
        for name, (command, reported) in TAMPERING.items():
            lab.ssh("node1", "sh", "-c", shlex.quote(command.format(id=number)))
            shown = lab.try_ssh("node1", "heddle-host", "diff")
            assert (shown.returncode, reported.format(id=number) in shown.stdout) == (1, True), (name, shown.stdout)
            lab.ssh("node1", "heddle-host", "apply")
            assert lab.try_ssh("node1", "heddle-host", "diff").returncode == 0, name
    finally:
        # Which is stopped with heddle-host.
        lab.ssh("node1", "systemctl", "start", "heddle-host", "heddle-mesh")
    wait_overlays(lab, dict.fromkeys(PAIRS, "fastdp"), encrypted=False)
    assert answers(lab, "warp", external(4), external(6), *FAR) == [True] * 4


def test_removal_leaves_nothing(lab, tenants, before):
    (tenants / "primary.yml").write_text("".join(SPACE % name for name in TENANTS))
    lab.play("networks.yml", manifests=tenants)
    assert (kernel(lab), switch(lab), lab.dump()) == before
