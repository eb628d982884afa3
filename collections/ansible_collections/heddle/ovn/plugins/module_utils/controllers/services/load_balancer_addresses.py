# SPDX-License-Identifier: Apache-2.0
"""Load balancer addresses of Services: their allocation from pools, and what is refused.

Which host announces an address is decided in `load_balancers.py`.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Collection, Iterator
from ipaddress import ip_interface

from ...api.services.external_access import LOAD_BALANCER
from ...common.addressing import family, network_of, overlapping
from ...store.snapshot import Snapshot, StoredObject
from ..admission.host_addresses import addresses_of_hosts, next_hops_of_hosts
from ..allocation.pools import Pool
from .cluster_ips import SERVICE, Refusal, families_of, service_owner

LOAD_BALANCER_POOL = "LoadBalancerPool"
# The class of Heddle's own load balancers; Services of other classes are left to other implementations.
CLASS = "heddle.dev/load-balancer"
_EGRESS_IP = "EgressIP"
_RANGES = ("cluster_subnets", "service_subnets", "join_subnets", "masquerade_subnets")
_ELSEWHERE = "choose another address"


def is_load_balancer(service: StoredObject) -> bool:
    """Return whether Heddle gives a Service addresses."""
    spec = service.spec
    return spec.get("type") == LOAD_BALANCER and spec["loadBalancerClass"] in (None, CLASS)


def load_balancer_pool(version: int) -> str:
    """Name of the pool with the load balancer addresses of one family."""
    return f"load-balancer-v{version}"


def load_balancer_addresses(snapshot: Snapshot, service: StoredObject) -> list[str]:
    """Return the addresses that a Service got, in the order of its families."""
    found = (snapshot.get(load_balancer_pool(one), service_owner(service)) for one in families_of(service, snapshot))
    return [address for address in found if address]


def load_balancer_pools(snapshot: Snapshot) -> Iterator[Pool]:
    """Pools of the addresses; a Service for which there is none has no claim, and is reported by `announcement`."""
    services = [entry for entry in snapshot.of_kind(SERVICE) if is_load_balancer(entry)]
    for version in (4, 6):
        name, space = load_balancer_pool(version), Space(snapshot, version)
        held = {owner: one for owner, one in snapshot.allocations.get(name, {}).items() if space.has(one)}
        asking = {service_owner(one): one for one in services if version in families_of(one, snapshot)}
        asked = {owner: text for owner, one in asking.items() if (text := requested_address(one, version))}
        kept = {owner: value for owner, value in held.items() if owner in asking and asked.get(owner, value) == value}
        taken = set(kept.values())
        for owner in sorted(asked.keys() - kept.keys()):
            if space.has(asked[owner]) and asked[owner] not in taken:
                kept[owner] = asked[owner]
                taken.add(asked[owner])
        waiting = sorted(asking.keys() - asked.keys() - kept.keys())
        kept |= zip(waiting, space.free(taken), strict=False)
        if kept:
            owners = {owner: asking[owner].key for owner in kept}
            yield Pool(name, "load balancer addresses", "add a LoadBalancerPool", lambda _taken: iter(()), owners, kept)


def requested_address(service: StoredObject, version: int) -> str | None:
    """Return the address that a Service requests; one of another family leaves this family without."""
    text = service.spec["loadBalancerIP"]
    return text if text and family(text) == version else None


class Space:
    """The addresses of all pools of one family that a Service may have."""

    def __init__(self, snapshot: Snapshot, version: int) -> None:
        self._subnets = [
            network_of(text)
            for pool in snapshot.of_kind(LOAD_BALANCER_POOL)
            for text in pool.spec["subnets"]
            if family(text) == version
        ]
        self._reserved = {address for address, _what in _taken(snapshot)} | set(_edges(snapshot))

    def has(self, text: str) -> bool:
        """Return whether an address is one of these."""
        address = ipaddress.ip_address(text)
        return text not in self._reserved and any(
            address.version == subnet.version and address in subnet for subnet in self._subnets
        )

    def free(self, taken: Collection[str]) -> Iterator[str]:
        """Yield the addresses that are not taken, in their order."""
        for subnet in self._subnets:
            for number in range(subnet.num_addresses):
                text = str(subnet.network_address + number)
                if text not in taken and text not in self._reserved:
                    yield text


def _edges(snapshot: Snapshot) -> Iterator[str]:
    """Yield network and broadcast addresses of provider networks, and the anycast address of routers (RFC 4291)."""
    for node in snapshot.of_kind("Node"):
        for address in (node.spec.get("gateway") or {}).get("addresses", ()):
            subnet = ip_interface(address).network
            yield str(subnet.network_address)
            if subnet.version == 4:
                yield str(subnet.broadcast_address)


def check_load_balancer_pools(after: Snapshot) -> Iterator[Refusal]:
    """Reject pools that overlap with each other, with addresses of hosts, and with addresses of EgressIPs."""
    owned = [
        (pool, f"spec.subnets[{number}]", text)
        for pool in after.of_kind(LOAD_BALANCER_POOL)
        for number, text in enumerate(pool.spec["subnets"])
    ]
    for (pool, path, text), (other, _path, second) in itertools.combinations(owned, 2):
        if overlapping(text, second):
            where = "the same pool" if other is pool else f"{LOAD_BALANCER_POOL} {other.name}"
            yield pool.key, path, f"{text} overlaps with {second} of {where}", "choose other subnets"
    taken = dict.fromkeys(_taken(after))
    for pool, path, text in owned:
        subnet = network_of(text)
        for address, what in taken:
            found = ipaddress.ip_address(address)
            if found.version == subnet.version and found in subnet:
                yield pool.key, path, f"{text} contains {address}, {what}", "choose other subnets"
        for name in _RANGES:
            for shared in ("/".join(one.split("/")[:2]) for one in after.settings[name]):
                if overlapping(text, shared):
                    rule = f"{text} overlaps with {shared}, the setting {name}"
                    yield pool.key, path, rule, "choose subnets of the provider network"


def _taken(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield each address that is not for Services, with what has it."""
    for address, name in addresses_of_hosts(snapshot):
        yield address, f"an address of host {name}"
    for address, name in next_hops_of_hosts(snapshot):
        yield address, f"the default gateway of host {name}"
    for entry in snapshot.of_kind(_EGRESS_IP):
        for address in entry.spec["egressIPs"]:
            yield address, f"an address of EgressIP {entry.name}"


def check_external_ips(after: Snapshot) -> Iterator[Refusal]:
    """Reject external addresses that are a host's or another object's: packets to them belong to these."""
    taken: dict[str, str] = {}
    for address, what in _taken(after):
        taken.setdefault(address, what)
    pools = [(text, pool) for pool in after.of_kind(LOAD_BALANCER_POOL) for text in pool.spec["subnets"]]
    users: dict[tuple[str, str, int], str] = {}
    for service in after.of_kind(SERVICE):
        for number, address in enumerate(service.spec.get("externalIPs", ())):
            path, start = f"spec.externalIPs[{number}]", f'Invalid value: "{address}": '
            if address in taken:
                yield service.key, path, f"{start}is {taken[address]}", _ELSEWHERE
            for text, pool in pools:
                if overlapping(address, text):
                    yield service.key, path, f"{start}is in {text} of {LOAD_BALANCER_POOL} {pool.name}", _ELSEWHERE
            for port in service.spec["ports"]:
                user = users.setdefault((address, port["protocol"], port["port"]), service_owner(service))
                if user != service_owner(service):
                    rule = f"{start}has port {port['port']} ({port['protocol']}) of Service {user} already"
                    yield service.key, path, rule, _ELSEWHERE
