# SPDX-License-Identifier: Apache-2.0
"""A user-defined network as read from either form, before its cross-field rules, and its normal form."""

from __future__ import annotations

from dataclasses import dataclass

from ..addresses import AddressField, Network, NetworkField
from ..node import Fields, Node

LAYER2 = "Layer2"
LAYER3 = "Layer3"
LOCALNET = "Localnet"
PRIMARY = "Primary"
SECONDARY = "Secondary"
ENABLED = "Enabled"
DISABLED = "Disabled"


@dataclass(frozen=True)
class Subnet:
    """An entry of ``subnets``, with its CIDR as written.

    Only Layer3 has a host subnet; it has a field of its own in the nested form.
    """

    node: Node
    host_subnet_node: Node
    text: str
    value: Network
    host_subnet: int | None


@dataclass(frozen=True)
class Ipam:
    """IP address management; ``mode`` is None when what was written means nothing."""

    mode: str | None = ENABLED
    lifecycle: str | None = None


@dataclass(frozen=True)
class NetworkSpec:
    """The fields of a network that could be read; ``fields`` has those that were written at all.

    ``flat`` is the form of OKEP-5193.
    """

    fields: Fields
    flat: bool
    topology: str | None
    role: str | None
    mtu: int | None
    subnets: tuple[Subnet, ...]
    join_subnets: tuple[NetworkField, ...]
    exclude_subnets: tuple[NetworkField, ...]
    reserved_subnets: tuple[NetworkField, ...]
    infrastructure_subnets: tuple[NetworkField, ...]
    default_gateway_ips: tuple[AddressField, ...]
    physical_network_name: str | None
    vlan: int | None
    ipam: Ipam

    def has(self, name: str) -> bool:
        """Whether the field was written."""
        return self.fields.get(name) is not None

    def count(self, name: str) -> int:
        """How many entries a list has, valid or not; 0 for what is no list."""
        node = self.fields.get(name)
        return len(node.value) if node and isinstance(node.value, list) else 0

    def refuse(self, name: str, rule: str, remedy: str = "") -> None:
        """Note a mistake at a field, or where it should be."""
        self.fields.place(name).refuse(rule, remedy)

    def normal_form(self) -> dict:
        """The one spec that both forms lead to (docs/contracts.md, "api")."""
        return {
            "topology": self.topology,
            "role": self.role,
            "mtu": self.mtu,
            "subnets": [{"cidr": str(subnet.value), "hostSubnet": subnet.host_subnet} for subnet in self.subnets],
            "joinSubnets": _texts(self.join_subnets),
            "excludeSubnets": _texts(self.exclude_subnets),
            "reservedSubnets": _texts(self.reserved_subnets),
            "infrastructureSubnets": _texts(self.infrastructure_subnets),
            "defaultGatewayIPs": _texts(self.default_gateway_ips),
            "physicalNetworkName": self.physical_network_name,
            "vlan": self.vlan,
            "ipam": {"mode": self.ipam.mode, "lifecycle": self.ipam.lifecycle},
        }


def _texts(fields: tuple) -> list[str]:
    return [str(field.value) for field in fields]
