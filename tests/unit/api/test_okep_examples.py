# SPDX-License-Identifier: Apache-2.0
"""The examples of the design documents work as they are printed, and both forms mean the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import matches, read_manifests

LAB = Path(__file__).parents[3] / "inventories" / "lab" / "manifests"

# OKEP-5193, "Example - Namespace scoped network".
NAMESPACED = """\
kind: UserDefinedNetwork
metadata:
  name: db-network
  namespace: demo
spec:
  topology: Layer2
  role: Primary
  mtu: 9000
  subnets: ["10.0.0.0/24"]
  excludeSubnets: ["10.0.0.0/26"]
  ipamLifecycle: Persistent
"""

# OKEP-5193, the same network "After creation".
CREATED = """\
kind: UserDefinedNetwork
metadata:
  name: db-network
  namespace: demo
  finalizers:
    - k8s.ovn.org/user-defined-network-protection
spec:
  topology: Layer2
  role: Primary
  mtu: 9000
  subnets: ["10.0.0.0/24"]
  excludeSubnets: ["10.0.0.100/26"]
  ipam:
    lifecycle: Persistent
status:
  conditions:
    - lastTransitionTime: "2025-05-13T18:01:05Z"
      message: NetworkAttachmentDefinition has been created
      reason: NetworkAttachmentDefinitionCreated
      status: "True"
      type: NetworkCreated
    - lastTransitionTime: "2025-05-13T18:01:05Z"
      message: Network allocation succeeded for all synced nodes.
      reason: NetworkAllocationSucceeded
      status: "True"
      type: NetworkAllocationSucceeded
"""

# OKEP-5193, "Example - Cluster scoped network".
CLUSTER = """\
kind: ClusterUserDefinedNetwork
metadata:
  name: db-network
spec:
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values:
        - "mynamespace"
        - "theirnamespace"
  template:
    topology: Layer2
    role: Primary
    mtu: 9000
    subnets: ["10.0.0.0/24"]
    excludeSubnets: ["10.0.0.100/26"]
status:
  conditions:
    - lastTransitionTime: "2025-05-13T19:26:13Z"
      message: 'NetworkAttachmentDefinition has been created in following namespaces:
      [mynamespace, theirnamespace]'
      reason: NetworkAttachmentDefinitionCreated
      status: "True"
      type: NetworkCreated
"""

DB_NETWORK = {
    "topology": "Layer2",
    "role": "Primary",
    "mtu": 9000,
    "subnets": [{"cidr": "10.0.0.0/24", "hostSubnet": None}],
    "joinSubnets": [],
    "excludeSubnets": ["10.0.0.0/26"],
    "reservedSubnets": [],
    "infrastructureSubnets": [],
    "defaultGatewayIPs": [],
    "physicalNetworkName": None,
    "vlan": None,
    "ipam": {"mode": "Enabled", "lifecycle": "Persistent"},
    "transport": None,
    "noOverlay": None,
    "evpn": None,
}


def read_one(text: str):
    """The only resource of a text without mistakes."""
    resources, problems = read_manifests([("manifest.yml", text)])
    assert problems == []
    (resource,) = resources
    return resource


def test_namespaced_example() -> None:
    network = read_one(NAMESPACED)
    assert network.key == "UserDefinedNetwork/demo/db-network"
    assert network.spec == DB_NETWORK


def test_created_example() -> None:
    """Finalizers and status are what a server adds; host bits of excludeSubnets are cut off as in the source."""
    assert read_one(CREATED).spec == {**DB_NETWORK, "excludeSubnets": ["10.0.0.64/26"]}


def test_cluster_example() -> None:
    network = read_one(CLUSTER)
    assert network.key == "ClusterUserDefinedNetwork/db-network"
    selector = network.spec.pop("namespaceSelector")
    assert network.spec == {
        **DB_NETWORK,
        "excludeSubnets": ["10.0.0.64/26"],
        "ipam": {"mode": "Enabled", "lifecycle": None},
        "uplinks": [],
    }
    selected = [
        name
        for name in ("mynamespace", "demo", "theirnamespace")
        if matches(selector, read_one(f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}").labels)
    ]
    assert selected == ["mynamespace", "theirnamespace"]


@pytest.mark.parametrize(
    ("file", "example"), [("okep-5193-namespaced.yml", NAMESPACED), ("okep-5193-cluster.yml", CLUSTER)]
)
def test_lab_manifests_equal_the_okep_examples(file: str, example: str) -> None:
    assert f"---\n{example}---\n" in (LAB / file).read_text()


FLAT_AND_NESTED = {
    "layer2": (
        "{topology: Layer2, role: Primary, mtu: 1400, subnets: [10.0.0.0/24, 'fd00::/64'],"
        " joinSubnets: [100.66.0.0/16], ipam: {lifecycle: Persistent}}",
        "{topology: Layer2, layer2: {role: Primary, mtu: 1400, subnets: [10.0.0.0/24, 'fd00::/64'],"
        " joinSubnets: [100.66.0.0/16], ipam: {lifecycle: Persistent}}}",
    ),
    "layer3": (
        "{topology: Layer3, role: Primary, subnets: [10.128.0.0/16/24, 'fd00:10:128::/48']}",
        "{topology: Layer3, layer3: {role: Primary,"
        " subnets: [{cidr: 10.128.0.0/16, hostSubnet: 24}, {cidr: 'fd00:10:128::/48'}]}}",
    ),
    "localnet": (
        "{topology: Localnet, role: Secondary, subnets: [10.0.0.0/24], excludeSubnets: [10.0.0.0/28]}",
        "{topology: Localnet, localnet: {role: Secondary, subnets: [10.0.0.0/24], excludeSubnets: [10.0.0.0/28],"
        " physicalNetworkName: blue}}",
    ),
}


@pytest.mark.parametrize(("flat", "nested"), FLAT_AND_NESTED.values(), ids=FLAT_AND_NESTED)
@pytest.mark.parametrize("wrapper", ["template: %s", "template: {spec: %s}"])
def test_both_forms_mean_the_same(flat: str, nested: str, wrapper: str) -> None:
    specs = []
    for wrapped in (wrapper % flat, f"network: {nested}"):
        spec = read_one(
            "{apiVersion: k8s.ovn.org/v1alpha1, kind: ClusterUserDefinedNetwork, metadata: {name: blue},"
            f" spec: {{namespaceSelector: {{}}, {wrapped}}}}}"
        ).spec
        # The flat form cannot name the physical network.
        specs.append({**spec, "physicalNetworkName": None})
    assert specs[0] == specs[1]
