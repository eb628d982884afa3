# SPDX-License-Identifier: Apache-2.0
"""What the daemon of a host needs to know of the plan."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from ipaddress import ip_address

from ..common.errors import EngineError
from ..mesh.forwarding import Gateway
from ..render.host.mesh import mesh_gateways, mesh_networks, mesh_ports

# Weave's: the control channel's TCP port; the tunnels' UDP port is the next one.
CONTROL_PORT = 6783


class ConfigurationError(EngineError):
    """A plan that this host cannot run a mesh by."""


@dataclass(frozen=True)
class Neighbour:
    """Another host that this one has a connection to, if it can be reached."""

    node: str
    address: str


@dataclass(frozen=True)
class Configuration:
    """`peers` are all other hosts by their names in the mesh, `neighbours` those to connect to, a part of them.

    `networks` has by id the local ports and their MAC addresses, `gateways` by id those of primary networks, `mtu` is
    the largest of any network. The mesh is `encrypted` when one of its networks is, since all share the tunnels between
    two hosts.
    """

    node: str
    address: str
    peers: dict[str, Neighbour]
    neighbours: frozenset[str]
    networks: dict[int, dict[str, str]]
    mtu: int
    encrypted: bool = False
    gateways: dict[int, Gateway] = field(default_factory=dict)
    control_port: int = CONTROL_PORT

    @property
    def name(self):
        """This host's name in the mesh."""
        return peer_name(self.node)


def peer_name(node):
    """A host's name in the mesh: a locally administered MAC address (Weave's are MAC addresses too)."""
    octets = bytearray(hashlib.sha256(f"heddle-mesh\0{node}".encode()).digest()[:6])
    octets[0] = octets[0] & 0xFC | 0x02
    return octets.hex(":")


def configuration_of(plan, node):
    """Return the configuration of a node, None when the plan has no network of the mesh."""
    networks = mesh_networks(plan)
    if not networks:
        return None
    if node not in plan["nodes"]:
        raise ConfigurationError(f"the plan has no node {node}; run heddle.ovn.networks")
    own = _address(plan, node, None)
    version = ip_address(own).version
    peers = {peer_name(name): Neighbour(name, _address(plan, name, version)) for name in plan["nodes"] if name != node}
    peers = {name: peer for name, peer in peers.items() if peer.address}
    ports = mesh_ports(plan, node)
    return Configuration(
        node=node,
        address=own,
        peers=peers,
        neighbours=frozenset(name for name, peer in peers.items() if _are_neighbours(plan, node, peer.node)),
        networks={network["id"]: ports.get(name, {}) for name, network in networks.items()},
        gateways={networks[name]["id"]: Gateway(*one) for name, one in mesh_gateways(plan, node).items()},
        mtu=max(network["mtu"] for network in networks.values()),
        encrypted=any(network.get("encrypted") for network in networks.values()),
    )


def _are_neighbours(plan, one, other):
    """Whether two hosts have a connection: unless one of them names others only (`heddle_mesh_neighbours`)."""
    chosen = [(plan["nodes"][name].get("mesh_neighbours"), end) for name, end in ((one, other), (other, one))]
    return all(names is None or end in names for names, end in chosen)


def _address(plan, node, version):
    """The first address of the underlay of a family; without one, none of another host, and an error for this one."""
    addresses = plan["nodes"][node].get("encap_ips") or []
    found = next((one for one in addresses if version in (None, ip_address(one).version)), "")
    if not found and version is None:
        raise ConfigurationError(f"node {node} has no address of the underlay; set heddle_encap_ips")
    return found
