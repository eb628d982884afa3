# SPDX-License-Identifier: Apache-2.0
"""A node's connection to the provider network, from the facts it reported under `gateway`.

| key | meaning |
|---|---|
| `mode` | `shared`: OVN sends packets straight to the provider network; `local`: through the host's kernel |
| `bridge` | provider bridge, `br-ex` unless the inventory names another one |
| `uplink` | the bridge's port to the provider network: that NIC |
| `mac` | MAC of the bridge device, which is the NIC's; every gateway router of the node uses it |
| `addresses` | the node's own addresses on the bridge with prefix length, the primary one of each family first |
| `next_hops` | default gateways of the node, at most one per family |
| `vlan` | VLAN tag of what the gateway routers send; None: untagged |
| `physical_networks` | further bridge mappings, physical network -> bridge |
| `vrf` | whether the node's kernel has VRFs |
| `prober` | cgroup (version 2) of the health prober, as a path without a leading slash; "" where it cannot be matched |
| `userspace_interfaces` | uplinks that Open vSwitch reads in userspace; the kernel must ignore what comes in on them |
| `advertised_interfaces` | uplinks with a default route that the kernel learned from router advertisements |
| `translated_ports` | ports that translated connections may get, `FIRST-LAST`: the node's ip_local_port_range |

A node without these facts has no external connectivity; none of it is rendered then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...common.addressing import family, plain, subnet_of

# Linux's default of net.ipv4.ip_local_port_range (ip-sysctl.rst).
EPHEMERAL_PORTS = "32768-60999"


@dataclass(frozen=True)
class Provider:
    """The node's connection to the provider network; fields as in the table above."""

    bridge: str
    uplink: str
    mac: str
    addresses: list[str]
    next_hops: list[str] = field(default_factory=list)
    mode: str = "shared"
    vlan: int | None = None
    physical_networks: dict[str, str] = field(default_factory=dict)
    vrf: bool = True
    prober: str = ""
    userspace_interfaces: list[str] = field(default_factory=list)
    advertised_interfaces: list[str] = field(default_factory=list)
    translated_ports: str = EPHEMERAL_PORTS

    @property
    def is_local(self) -> bool:
        """Return whether packets leave through the host's kernel."""
        return self.mode == "local"

    def address(self, version: int) -> str | None:
        """Return the node's primary address of a family, without prefix length."""
        return next((plain(address) for address in self.addresses if family(address) == version), None)

    def networks(self, version: int) -> list[str]:
        """Return the provider network's subnets of a family that the node is in."""
        found = [address for address in self.addresses if family(address) == version]
        return list(dict.fromkeys(subnet_of(address) for address in found))

    def next_hop(self, version: int) -> str | None:
        """Return the default gateway of a family."""
        return next((address for address in self.next_hops if family(address) == version), None)


def provider_of(node: dict) -> Provider | None:
    """Return the provider facts of a node of the plan, None for a node without."""
    gateway = node.get("gateway")
    return Provider(**gateway) if gateway else None
