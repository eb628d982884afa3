# SPDX-License-Identifier: Apache-2.0
"""Names of OVN objects, as ovn-kubernetes forms them.

Everything here is a pure function of a network's name and a node's name.
"""

from __future__ import annotations

import re

DEFAULT_NETWORK = "default"
PRIMARY_NETWORK_LABEL = "k8s.ovn.org/primary-user-defined-network"
EXTERNAL_ID_NETWORK = "k8s.ovn.org/network"
EXTERNAL_ID_ROLE = "k8s.ovn.org/role"
EXTERNAL_ID_TOPOLOGY = "k8s.ovn.org/topology"
EXTERNAL_ID_NAD = "k8s.ovn.org/nad"
EXTERNAL_ID_NODE = "k8s.ovn.org/node"
ROUTER_MARK = "k8s-cluster-router"
# Stands for the network of what address pools have in common, in reports about networks.
ADDRESS_POOLS = "address pools"
INTEGRATION_BRIDGE = "br-int"
# The bridge of the mesh on a host, and its port for tunnels.
MESH_BRIDGE, MESH_TUNNELS = "br-mesh", "heddle-vxlan"
# The link group of ports of a userspace datapath that workloads are behind: the host ignores what it receives there.
USERSPACE_LINKS = 0x6864
# Where a host has its key and certificate for the mesh.
MESH_CERTIFICATES = "/var/lib/heddle/mesh"
# Bridges whose flows are those of a controller only, so that no other flows of Heddle are looked for there.
CONTROLLED_BRIDGES = frozenset({INTEGRATION_BRIDGE, MESH_BRIDGE})
# The topology of a network of the mesh, which OVN does not know.
MESH_TOPOLOGY = "Mesh"
# The physical network of the provider bridge.
PHYSICAL_NETWORK = "physnet"
# The role of an interface on the default network whose workload has another primary network.
LOCKED_ROLE = "infrastructure-locked"
# The type of owner of address sets with the addresses of a DNS name (ovn-kubernetes, `DbObjectIDs`).
EGRESS_FIREWALL_DNS = "EgressFirewallDNS"
# The version of a node's Layer2 topology (OKEP-5094): with gateway routers, with a transit router.
GATEWAY_ROUTERS, TRANSIT_ROUTER = "1.0", "2.0"
# Interfaces of a workload on the default network and on its primary one (OKEP-5193).
DEFAULT_INTERFACE = "eth0"
PRIMARY_INTERFACE = "ovn-udn1"

_INTERFACE_NAME_LIMIT = 15
# What Open vSwitch and the kernel accept as the name of an interface.
LINK_NAME = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{_INTERFACE_NAME_LIMIT - 1}}}")
# Of a host; `join` is part of the names of switches.
NODE_NAME = re.compile(r"(?!join$)[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


def namespaced_network(namespace: str, name: str) -> str:
    """Return the name of a UserDefinedNetwork's network; an underscore cannot occur in either part."""
    return f"{namespace}_{name}"


def cluster_network(name: str) -> str:
    """Return the name of a ClusterUserDefinedNetwork's network."""
    return f"cluster_udn_{name}"


def _dotted(text: str) -> str:
    return text.replace("-", ".").replace("/", ".")


def prefix(network: str) -> str:
    """Return the prefix of the names of a network's objects; empty for the default network."""
    return "" if network == DEFAULT_NETWORK else f"{_dotted(network)}_"


def cluster_router(network: str) -> str:
    """Logical router that joins a Layer3 network's node switches."""
    return f"{prefix(network)}ovn_cluster_router"


def transit_router(network: str) -> str:
    """Logical router that spans the zones of a Layer2 primary network."""
    return f"{prefix(network)}transit_router"


def gateway_router(network: str, node: str) -> str:
    """Logical router that is bound to one node and connects the network to the provider network."""
    return f"GR_{prefix(network)}{node}"


def node_switch(network: str, node: str) -> str:
    """Logical switch with one node's workloads of a Layer3 network."""
    return f"{prefix(network)}{node}"


def layer2_switch(network: str) -> str:
    """Logical switch of a Layer2 network, present in every zone."""
    return f"{prefix(network)}ovn_layer2_switch"


def load_balancer_group(network: str) -> str:
    """Load balancers of a network that its switches and gateway routers share."""
    return f"{prefix(network)}clusterLBGroup"


def localnet_switch(network: str) -> str:
    """Logical switch of a Localnet network, one in every zone."""
    return f"{prefix(network)}ovn_localnet_switch"


def localnet_port(network: str) -> str:
    """Port of a Localnet network's switch that connects to the provider network."""
    return f"{prefix(network)}ovn_localnet_port"


def join_switch(network: str) -> str:
    """Logical switch between the cluster router and the gateway router of a Layer3 network."""
    return f"{prefix(network)}join"


def transit_switch(network: str) -> str:
    """Logical switch that spans the zones of a Layer3 network."""
    return f"{prefix(network)}transit_switch"


def transit_switch_port(network: str, node: str) -> str:
    """Port of the transit switch that leads to a node's cluster router."""
    return f"{prefix(network)}tstor-{node}"


def transit_router_port(network: str, node: str) -> str:
    """Port of a node's cluster router that leads to the transit switch."""
    return f"{prefix(network)}rtots-{node}"


def management_port(network: str, node: str) -> str:
    """Logical switch port of a node's own interface in a network."""
    return f"k8s-{prefix(network)}{node}"


def external_switch(network: str, node: str) -> str:
    """Logical switch between a gateway router and the provider network."""
    return f"ext_{prefix(network)}{node}"


def external_localnet_port(network: str, node: str, bridge: str) -> str:
    """Port of the external switch that leads to a provider bridge."""
    return f"{bridge}_{prefix(network)}{node}"


def patch_port(network: str, node: str, bridge: str) -> str:
    """Port of a provider bridge that ovn-controller makes for a localnet port."""
    return f"patch-{external_localnet_port(network, node, bridge)}-to-{INTEGRATION_BRIDGE}"


def management_interface(network_id: int) -> str:
    """The node's own interface in a network."""
    return f"ovn-k8s-mp{network_id}"


def vrf_name(network_object: str, network_id: int, taken: set[str]) -> str:
    """VRF of a network on its nodes: a cluster-scoped network's own name if valid as a device name.

    `network_object` is `Kind/name` or `Kind/namespace/name`, `taken` holds names of other devices.
    """
    kind, *_namespace, name = network_object.split("/")
    usable = len(name) <= _INTERFACE_NAME_LIMIT and name not in {"default", "all", "lo", INTEGRATION_BRIDGE, *taken}
    return name if kind == "ClusterUserDefinedNetwork" and usable else f"mp{network_id}-udn-vrf"


def nad_key(namespace: str, name: str) -> str:
    """Key of a network attachment: its namespace and the name of the network object."""
    return f"{namespace}/{name}"


def indexed_nad_key(nad: str, index: int) -> str:
    """Key of a workload's attachment number `index`, from 0, to one definition: `ns/nad`, `ns/nad/1`."""
    return f"{nad}/{index}" if index else nad


def definition_of(nad: str) -> str:
    """Return `namespace/name` of the definition that an attachment's key, indexed or not, is of."""
    return "/".join(nad.split("/")[:2])


def workload_port(namespace: str, workload: str, nad: str | None = None) -> str:
    """Logical switch port of a workload; without `nad` the one on the default network."""
    port = f"{namespace}_{workload}"
    return port if nad is None else f"{_dotted(nad)}_{port}"


def workload_namespace(namespace: str, workload: str) -> str:
    """Linux network namespace of a workload."""
    return f"{namespace}_{workload}"


def fnv1a_64(text: str) -> int:
    """Return the 64-bit FNV-1a hash of a text."""
    value = 0xCBF29CE484222325
    for octet in text.encode():
        value = ((value ^ octet) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def hashed_name(primary_id: str) -> str:
    """Name of a port group or address set: `a` and the hash of its primary id."""
    return f"a{fnv1a_64(primary_id)}"


def host_interface(port: str, suffix: str) -> str:
    """Name of the host's end of a workload's link: a hash of its port, within the kernel's limit of 15 bytes."""
    return f"{fnv1a_64(port):016x}"[: _INTERFACE_NAME_LIMIT - len(suffix)] + suffix
