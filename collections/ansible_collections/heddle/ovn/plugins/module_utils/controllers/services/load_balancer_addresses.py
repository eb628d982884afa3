# SPDX-License-Identifier: Apache-2.0
"""Load balancer addresses of Services: their allocation from pools, and what is refused.

Which host announces an address is decided in `load_balancers.py`.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Collection, Iterator

from ...api.services.external_access import LOAD_BALANCER
from ...common.addressing import family, network_of, overlapping
from ...store.settings import shared_ranges
from ...store.snapshot import Snapshot, StoredObject
from ..admission.host_addresses import reserved_addresses, taken_addresses
from ..allocation.address_assignment import Candidate
from ..allocation.pools import Pool
from ..network.attachment import Attachments
from ..network.networks import Network
from .cluster_ips import SERVICE, Refusal, families_of, service_network, service_owner

LOAD_BALANCER_POOL = "LoadBalancerPool"
# The class of Heddle's own load balancers; Services of other classes are left to other implementations.
CLASS = "heddle.dev/load-balancer"
# A host with this label announces none (Kubernetes, "Well-Known Labels").
EXCLUDED_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"
_EGRESS_IP = "EgressIP"
_ADDRESS_POOL = "AddressPool"
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


def load_balancer_families(snapshot: Snapshot, service: StoredObject, network: Network | None) -> list[int]:
    """Return the families in which a Service has addresses: those that its network has, too, once there is one."""
    return [one for one in families_of(service, snapshot) if network is None or one in network.families]


def load_balancer_pools(snapshot: Snapshot, attachments: Attachments) -> Iterator[Pool]:
    """Pools of the addresses; a Service for which there is none has no claim, and is reported by `announcement`."""
    families = {
        entry.key: load_balancer_families(snapshot, entry, service_network(snapshot, attachments, entry))
        for entry in snapshot.of_kind(SERVICE)
        if is_load_balancer(entry)
    }
    for version in (4, 6):
        name, space = load_balancer_pool(version), Space(snapshot, version)
        held = {owner: one for owner, one in snapshot.allocations.get(name, {}).items() if space.has(one)}
        services = (snapshot.objects[key] for key, own in families.items() if version in own)
        asking = {service_owner(one): one for one in services}
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


def announcing_hosts(snapshot: Snapshot) -> list[Candidate]:
    """Return the hosts that may announce addresses."""
    hosts = []
    for node in snapshot.of_kind("Node"):
        gateway = node.spec.get("gateway")
        if gateway and node.spec.get("chassis") and EXCLUDED_LABEL not in node.spec.get("labels", {}):
            subnets = {str(ipaddress.ip_interface(one).network) for one in gateway["addresses"]}
            hosts.append(Candidate(node.name, tuple(sorted(subnets))))
    return hosts


class Space:
    """The addresses of all pools of one family that a Service may have."""

    def __init__(self, snapshot: Snapshot, version: int) -> None:
        self._snapshot = snapshot
        self._subnets = [
            network_of(text)
            for pool in snapshot.of_kind(LOAD_BALANCER_POOL)
            for text in pool.spec["subnets"]
            if family(text) == version
        ]
        self._reserved = {**reserved_addresses(snapshot), **dict(_egress_addresses(snapshot))}

    def has(self, text: str) -> bool:
        """Return whether an address is one of these."""
        address = ipaddress.ip_address(text)
        return text not in self._reserved and any(
            address.version == subnet.version and address in subnet for subnet in self._subnets
        )

    def free(self, taken: Collection[str]) -> Iterator[str]:
        """Yield the addresses that are not taken, in the order of pools, those that a host may announce first."""
        provider = {network_of(text) for host in announcing_hosts(self._snapshot) for text in host.subnets}
        # A pool contains no address of a host: what overlaps with a subnet of hosts is a part of it.
        unusable = {subnet: not any(map(subnet.overlaps, provider)) for subnet in self._subnets}
        for subnet in sorted(self._subnets, key=unusable.__getitem__):
            for number in range(subnet.num_addresses):
                text = str(subnet.network_address + number)
                if text not in taken and text not in self._reserved:
                    yield text


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
    taken = [*taken_addresses(after).items(), *dict.fromkeys(_egress_addresses(after))]
    for pool, path, text in owned:
        subnet = network_of(text)
        for address, what in taken:
            found = ipaddress.ip_address(address)
            if found.version == subnet.version and found in subnet:
                yield pool.key, path, f"{text} contains {address}, {what}", "choose other subnets"
        for name, shared in shared_ranges(after.settings):
            if overlapping(text, shared):
                rule = f"{text} overlaps with {shared}, the setting {name}"
                yield pool.key, path, rule, "choose subnets of the provider network"


def _egress_addresses(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for entry in snapshot.of_kind(_EGRESS_IP):
        for address in entry.spec["egressIPs"]:
            yield address, f"an address of EgressIP {entry.name}"


def check_external_ips(after: Snapshot) -> Iterator[Refusal]:
    """Reject external addresses that are a host's or another object's: packets to them belong to these.

    A Service with one of the cluster IPs or shared services, which are in ranges of the settings, would intercept
    packets for these (CVE-2020-8554).
    """
    taken = {**dict(_egress_addresses(after)), **reserved_addresses(after)}
    ranges = [
        *((text, f"{text} of {LOAD_BALANCER_POOL} {pool.name}")
          for pool in after.of_kind(LOAD_BALANCER_POOL) for text in pool.spec["subnets"]),
        *((text, f"{text} of {_ADDRESS_POOL} {pool.name}")
          for pool in after.of_kind(_ADDRESS_POOL) for subnet in pool.spec["subnets"] for text in subnet.values()),
        *((text, f"{text}, the setting {name}") for name, text in shared_ranges(after.settings)),
    ]  # fmt: skip
    users: dict[tuple[str, str, int], str] = {}
    for service in after.of_kind(SERVICE):
        for number, address in enumerate(service.spec.get("externalIPs", ())):
            path, start = f"spec.externalIPs[{number}]", f'Invalid value: "{address}": '
            if address in taken:
                yield service.key, path, f"{start}is {taken[address]}", _ELSEWHERE
            for text, what in ranges:
                if overlapping(address, text):
                    yield service.key, path, f"{start}is in {what}", _ELSEWHERE
            for port in service.spec["ports"]:
                user = users.setdefault((address, port["protocol"], port["port"]), service_owner(service))
                if user != service_owner(service):
                    rule = f"{start}has port {port['port']} ({port['protocol']}) of Service {user} already"
                    yield service.key, path, rule, _ELSEWHERE


def check_own_external_ips(after: Snapshot, attachments: Attachments) -> Iterator[Refusal]:
    """Reject external addresses in a subnet of the Service's own user-defined network.

    Its switch leads what is sent to them to the Service, also where a workload has the address: the Service would
    intercept packets between workloads. Where a Service of another network has such an address nothing changes for
    these, and of the default network the settings have the subnets.
    """
    for service in after.of_kind(SERVICE):
        network = service_network(after, attachments, service) if service.spec.get("externalIPs") else None
        if network is None or network.is_default:
            continue
        subnets = [*(one["cidr"] for one in network.subnets), *network.join_subnets]
        for number, address in enumerate(service.spec["externalIPs"]):
            for subnet in (one for one in subnets if overlapping(address, one)):
                rule = f'Invalid value: "{address}": is in {subnet} of its network {network.name}'
                yield service.key, f"spec.externalIPs[{number}]", rule, _ELSEWHERE
