# SPDX-License-Identifier: Apache-2.0
"""Workloads straight on the provider's segment, in VLANs, and on a physical network without an uplink."""

from __future__ import annotations

import shutil

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests.lab.conftest import MANIFESTS, PATIENCE

NETWORK = """
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {name}}}}}
  network:
    topology: Localnet
    localnet:
      role: Secondary
      physicalNetworkName: {physical}
      subnets: ["{prefix}.2.0/24", "{prefix6}:2::/64"]
      excludeSubnets: [{others}]
{vlan}
---
apiVersion: v1
kind: Namespace
metadata: {{name: {name}}}
---
"""
WORKLOAD = """
apiVersion: heddle.dev/v1
kind: Workload
metadata:
  name: {name}
  namespace: {namespace}
  annotations: {{k8s.v1.cni.cncf.io/networks: {namespace}}}
spec: {{node: {node}}}
---
"""
VLAN = "      vlan: {{mode: Access, access: {{id: {}}}}}"
NETWORKS = {
    "flat": ("factory", "", ("node1", "node2")),
    "seven": ("factory", VLAN.format(7), ("node1", "node2")),
    "eight": ("factory", VLAN.format(8), ("node2",)),
    "apart": ("apart", "", ("node1", "node1", "node2")),
}


def others(place: int, prefix: str, prefix6: str) -> str:
    """All blocks of 32 addresses but one: the networks have equal subnets, and no two workloads have one address."""
    blocks = [32 * number for number in range(8) if number != place]
    found = [f"{prefix}.2.{block}/27" for block in blocks] + [f"{prefix6}:2::{block:x}/123" for block in blocks]
    return ", ".join(f'"{block}"' for block in found)


def prefixes(lab) -> dict[str, str]:
    v4, v6 = lab.ssh("node1", "ip -o address show dev br-ex scope global").splitlines(), ""
    four = next(line.split()[3] for line in v4 if " inet " in line and "169.254" not in line)
    v6 = next(line.split()[3] for line in v4 if " inet6 " in line and "fd69" not in line)
    return {"prefix": ".".join(four.split(".")[:2]), "prefix6": ":".join(v6.split(":")[:2])}


@pytest.fixture(scope="module")
def localnets(lab, tmp_path_factory):
    """Apply the networks in addition to those of the lab, and remove them afterwards."""
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("localnet") / "manifests")
    text, own = "", prefixes(lab)
    for place, (name, (physical, vlan, nodes)) in enumerate(NETWORKS.items(), start=4):
        text += NETWORK.format(name=name, physical=physical, vlan=vlan, others=others(place, **own), **own)
        for number, node in enumerate(nodes, start=1):
            text += WORKLOAD.format(name=f"w{number}", namespace=name, node=node)
    (directory / "localnet.yml").write_text(text)
    lab.play("networks.yml", manifests=directory)
    yield directory
    lab.play("networks.yml")


def addresses(lab, workload: str) -> list[str]:
    """Return a workload's addresses on its Localnet, IPv4 first."""
    namespace, _slash, name = workload.partition("/")
    node = NETWORKS[namespace][2][int(name[1:]) - 1]
    lines = lab.ssh(node, f"ip netns exec {namespace}_{name} ip -o address show dev net1 scope global").splitlines()
    found = [line.split()[3].partition("/")[0] for line in lines]
    assert len(found) == 2, lines
    return sorted(found, key=lambda address: ":" in address)


def reaches(lab, source: str, address: str) -> bool:
    namespace, _slash, name = source.partition("/")
    node = NETWORKS[namespace][2][int(name[1:]) - 1]
    done = lab.try_ssh(node, f"ip netns exec {namespace}_{name} ping -I net1 -c 3 -i 0.2 -W 1 {address}")
    return done.returncode == 0


def reaches_soon(lab, source: str, address: str) -> bool:
    """Return whether the address answers; on a busy machine packets may be lost, or come late."""
    return any(reaches(lab, source, address) for _attempt in attempts(PATIENCE))


def external(lab) -> list[str]:
    lines = lab.ssh("external", "ip -o address show dev eth2 scope global").splitlines()
    return [line.split()[3].partition("/")[0] for line in lines]


def test_untagged_workloads_are_on_the_provider_segment(lab, localnets):
    for address in external(lab):
        assert reaches_soon(lab, "flat/w1", address), address
        assert reaches_soon(lab, "flat/w2", address), address
    for address in addresses(lab, "flat/w1"):
        assert reaches_soon(lab, "flat/w2", address), address
        ping = f"ping -c 3 -i 0.2 -W 1 {address}"
        assert any(lab.try_ssh("external", ping).returncode == 0 for _attempt in attempts(PATIENCE)), address


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("seven/w1", "seven/w2", True),
        ("seven/w2", "seven/w1", True),
        ("seven/w1", "eight/w1", False),
        ("seven/w1", "flat/w2", False),
        ("flat/w1", "seven/w2", False),
        ("apart/w1", "apart/w2", True),
        ("apart/w1", "apart/w3", False),
        ("apart/w1", "flat/w1", False),
    ],
)
def test_vlans_and_physical_networks_are_isolated(lab, localnets, source, target, expected):
    # Silence means something where the sender gets answers.
    neighbour = target if expected else f"{source.partition('/')[0]}/w2"
    for address in addresses(lab, neighbour):
        assert reaches_soon(lab, source, address), address
    if not expected:
        for address in addresses(lab, target):
            assert not reaches(lab, source, address), address


def test_vlan_does_not_reach_the_external_host(lab, localnets):
    for address in addresses(lab, "seven/w2"):
        assert reaches_soon(lab, "seven/w1", address), address
    for address in external(lab):
        assert not reaches(lab, "seven/w1", address), address


def test_localnet_mtu_exceeds_tunnel_mtu_and_second_run_changes_nothing(lab, localnets):
    link = lab.ssh("node1", "ip netns exec flat_w1 ip -o link show dev net1")
    assert " mtu 1500 " in link
    assert set(lab.play("networks.yml", manifests=localnets).changed.values()) == {0}
    lab.play("audit.yml")
