# SPDX-License-Identifier: Apache-2.0
"""The addresses of hosts, of their gateways and of their networks as such: nothing else may have one of them."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_interface

from ...common.addressing import plain
from ...store.snapshot import Snapshot


def addresses_of_hosts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield each address of a host with the host's name."""
    for node in snapshot.of_kind("Node"):
        gateway = node.spec.get("gateway") or {}
        for address in (
            *gateway.get("addresses", ()),
            *node.spec.get("addresses", ()),
            *node.spec.get("encap_ips", ()),
            *(one for addresses in (node.spec.get("other_addresses") or {}).values() for one in addresses),
        ):
            yield plain(address), node.name


def next_hops_of_hosts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield each default gateway of a host on the provider network with the host's name."""
    for node in snapshot.of_kind("Node"):
        for address in (node.spec.get("gateway") or {}).get("next_hops", ()):
            yield address, node.name


def edges_of_hosts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield network and broadcast addresses of the hosts' subnets, and the anycast address of routers, with what it is.

    Subnets of two addresses or one have none of these (RFC 3021, RFC 6164).
    """
    for node in snapshot.of_kind("Node"):
        for interface in (
            *(node.spec.get("gateway") or {}).get("addresses", ()),
            *(one for addresses in (node.spec.get("other_addresses") or {}).values() for one in addresses),
        ):
            subnet = ip_interface(interface).network
            if subnet.num_addresses <= 2:
                continue
            if subnet.version == 4:
                yield str(subnet.network_address), f"the network address of {subnet}"
                yield str(subnet.broadcast_address), f"the broadcast address of {subnet}"
            else:
                yield str(subnet.network_address), f"the anycast address of routers in {subnet} (RFC 4291)"


def taken_addresses(snapshot: Snapshot) -> dict[str, str]:
    """Return the addresses of hosts and of their default gateways, each with what it is."""
    found = {address: f"an address of host {name}" for address, name in addresses_of_hosts(snapshot)}
    for address, name in next_hops_of_hosts(snapshot):
        found.setdefault(address, f"the default gateway of host {name}")
    return found


def reserved_addresses(snapshot: Snapshot) -> dict[str, str]:
    """Return these, and the addresses that the hosts' subnets have as such."""
    return {**dict(edges_of_hosts(snapshot)), **taken_addresses(snapshot)}
