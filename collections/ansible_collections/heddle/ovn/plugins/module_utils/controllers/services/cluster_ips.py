# SPDX-License-Identifier: Apache-2.0
"""Cluster IPs of Services: families, allocation, and what an API server refuses (Kubernetes, dual-stack services).

All networks share the service subnets: a Service has an address that no other one has, whatever its network.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable, Collection, Iterator

from ...api.services.external_access import EXTERNAL_NAME
from ...common.addressing import family, network_of
from ...common.naming import PRIMARY_NETWORK_LABEL
from ...store.shared_services import SETTING as SHARED_SERVICES
from ...store.snapshot import Snapshot, StoredObject
from ..allocation.pools import Pool
from ..network.attachment import Attachments
from ..network.networks import Network

SERVICE = "Service"
# Its clients send to an address of this pool, as to the Service that Coil makes; the owner is its key.
EGRESS = "Egress"
FAMILY_NAMES = {4: "IPv4", 6: "IPv6"}
_VERSIONS = {name: version for version, name in FAMILY_NAMES.items()}
_HEADLESS = ["None"]
# The lower part of a subnet is for requested addresses (Kubernetes, KEP-3070): a sixteenth, at least 16, at most 256.
_STATIC_PART, _LEAST_STATIC, _MOST_STATIC = 16, 16, 256
# Object key, field, rule, remedy.
Refusal = tuple[str, str, str, str]


def cluster_ip_pool(version: int) -> str:
    """Name of the pool with the cluster IPs of one family."""
    return f"cluster-ip-v{version}"


def service_owner(service: StoredObject) -> str:
    """Return the name of a Service as an owner in pools."""
    return f"{service.namespace}/{service.name}"


def service_network(snapshot: Snapshot, attachments: Attachments, service: StoredObject) -> Network | None:
    """Return the network of a Service; None as long as its namespace lacks the primary one it is labelled for."""
    primary = attachments.primary(service)
    if primary is not None:
        return primary
    labelled = PRIMARY_NETWORK_LABEL in snapshot.objects[f"Namespace/{service.namespace}"].labels
    return None if labelled else attachments.default


def is_alias(service: StoredObject) -> bool:
    """Return whether a Service is a name for another name (`ExternalName`), without addresses and endpoints."""
    return service.spec.get("type") == EXTERNAL_NAME


def is_headless(service: StoredObject) -> bool:
    """Return whether a Service has no cluster IP; an alias has none either."""
    return service.spec["clusterIPs"] == _HEADLESS or is_alias(service)


def cluster_ips(snapshot: Snapshot, service: StoredObject) -> list[str]:
    """Return a Service's cluster IPs, the primary one first; those that are not allocated are left out."""
    if is_headless(service):
        return []
    found = (snapshot.get(cluster_ip_pool(one), service_owner(service)) for one in families_of(service, snapshot))
    return [address for address in found if address]


def families_of(service: StoredObject, snapshot: Snapshot) -> tuple[int, ...]:
    """Return the address families of a Service, the primary one first.

    Without a request it has the family that it had, at first that of the first service subnet. An alias has none.
    """
    if is_alias(service):
        return ()
    spec, available = service.spec, _available(snapshot)
    named = [_VERSIONS[name] for name in spec["ipFamilies"]]
    named += [family(text) for text in spec["clusterIPs"][len(named) :] if text not in _HEADLESS]
    known = service.status.get("ipFamilies", ())
    found = named or [_VERSIONS[name] for name in known[:1]] or list(available[:1])
    if _policy(service) != "SingleStack" and len(found) == 1:
        found += [one for one in available if one not in found]
    return tuple(found)


def _policy(service: StoredObject) -> str:
    chosen = service.spec["ipFamilyPolicy"]
    if chosen is None and is_headless(service) and not service.spec["selector"]:
        return "RequireDualStack"
    return chosen or "SingleStack"


def _available(snapshot: Snapshot) -> tuple[int, ...]:
    return tuple(dict.fromkeys(family(subnet) for subnet in snapshot.settings["service_subnets"]))


def cluster_ip_pools(snapshot: Snapshot) -> Iterator[Pool]:
    """Pools of the cluster IPs; requests that `check_services` refuses are not among the claims."""
    services = [entry for entry in snapshot.of_kind(SERVICE) if not is_headless(entry)]
    for version in (4, 6):
        claims = [entry for entry in services if version in families_of(entry, snapshot)]
        subnets = _subnets(snapshot, version)
        owners = {service_owner(entry): entry.key for entry in claims}
        owners |= {entry.key: entry.key for entry in snapshot.of_kind(EGRESS)}
        if owners and subnets:
            yield Pool(
                cluster_ip_pool(version),
                f"cluster IPs in {', '.join(subnets)}",
                "remove Services, or make service_subnets larger where they are",
                _candidates(subnets, _shared(snapshot)),
                owners,
                {service_owner(entry): text for entry in claims if (text := _requested(entry, version))},
            )


def _requested(service: StoredObject, version: int) -> str | None:
    return next(
        (text for text in service.spec["clusterIPs"] if text not in _HEADLESS and family(text) == version), None
    )


def _subnets(snapshot: Snapshot, version: int) -> list[str]:
    return [subnet for subnet in snapshot.settings["service_subnets"] if family(subnet) == version]


def _shared(snapshot: Snapshot) -> set[str]:
    return {str(ipaddress.ip_address(one["address"])) for one in snapshot.settings.get(SHARED_SERVICES, ())}


def _candidates(subnets: list[str], reserved: set[str]) -> Callable[[set[str]], Iterator[str]]:
    """Free addresses, those of the part for requests last."""

    def candidates(taken: set[str]) -> Iterator[str]:
        for subnet in map(network_of, subnets):
            # Neither the network's address nor the broadcast address.
            size = subnet.num_addresses - (1 if subnet.version == 4 else 0)
            static = min(max(_LEAST_STATIC, size // _STATIC_PART), _MOST_STATIC) if size > _LEAST_STATIC else 1
            for offset in itertools.chain(range(static, size), range(1, static)):
                text = str(subnet.network_address + offset)
                if text not in taken and text not in reserved:
                    yield text

    return candidates


def check_services(before: Snapshot, after: Snapshot) -> Iterator[Refusal]:
    """Reject what an API server refuses: families that the cluster has not, addresses that cannot be allocated."""
    holders = _holders(before, after)
    shared = {one["name"]: one for one in after.settings.get(SHARED_SERVICES, ())}
    for service in after.of_kind(SERVICE):
        if service_owner(service) in shared:
            yield (service.key, "metadata.name", f"is a shared service of the setting {SHARED_SERVICES}",
                   "choose another name, or take it out of the setting")  # fmt: skip
        mistakes = list(_family_mistakes(service, after))
        yield from mistakes
        if not mistakes:
            yield from _changes(service, before)
            yield from _unavailable(service, after, holders)
    allocated = _allocated(before, after)
    for address in sorted(_shared(after) & allocated.keys()):
        rule = f"{address} is the cluster IP of Service {allocated[address]}"
        yield "Settings", SHARED_SERVICES, rule, "choose another address"
    yield from _locked_endpoints(after)


def _locked_endpoints(after: Snapshot) -> Iterator[Refusal]:
    """Reject endpoints of shared services that only health probes reach on the default network (OKEP-5193)."""
    for entry in after.settings.get(SHARED_SERVICES, ()):
        # Others are addresses.
        for text in (one for one in entry["endpoints"] if "/" in one):
            namespace = after.objects.get(f"Namespace/{text.partition('/')[0]}")
            if namespace is not None and PRIMARY_NETWORK_LABEL in namespace.labels:
                rule = (
                    f"endpoint {text} of {entry['name']} is in a namespace with a primary network of its own, and "
                    "shared services are reached on the default network"
                )
                remedy = f"choose workloads of namespaces without the label {PRIMARY_NETWORK_LABEL}"
                yield "Settings", SHARED_SERVICES, rule, remedy


def _family_mistakes(service: StoredObject, after: Snapshot) -> Iterator[Refusal]:
    spec, available = service.spec, _available(after)
    if is_headless(service) and not spec["selector"]:
        return
    if _policy(service) == "RequireDualStack" and len(available) == 1:
        rule = 'Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'
        yield service.key, "spec.ipFamilyPolicy", rule, "use PreferDualStack or SingleStack"
    for position, name in enumerate(spec["ipFamilies"]):
        if _VERSIONS[name] not in available:
            rule = f'Invalid value: "{name}": not configured on this cluster'
            remedy = f"choose {', '.join(FAMILY_NAMES[one] for one in available)}"
            yield service.key, f"spec.ipFamilies[{position}]", rule, remedy
    for position, text in enumerate(spec["clusterIPs"]):
        if text not in _HEADLESS and family(text) not in available:
            rule = f'Invalid value: "{text}": {FAMILY_NAMES[family(text)]} is not configured on this cluster'
            yield service.key, f"spec.clusterIPs[{position}]", rule, "choose an address of the service subnets"


def _changes(service: StoredObject, before: Snapshot) -> Iterator[Refusal]:
    """The primary family and address of a Service stay; so does that it has one."""
    stored = before.objects.get(service.key)
    if stored is None or is_alias(stored) or is_alias(service):
        return
    remedy = "restore the value, or delete the Service first"
    if is_headless(stored) != is_headless(service):
        was = "None" if is_headless(stored) else "an address"
        yield service.key, "spec.clusterIPs[0]", f"Invalid value: may not change once set: it is {was}", remedy
        return
    if is_headless(service):
        # It has no address that would be lost.
        return
    old, new = stored.status.get("ipFamilies", ()), service.spec["ipFamilies"]
    if old and new and new[0] != old[0]:
        rule = f'Invalid value: "{new[0]}": may not change once set: it is {old[0]}'
        yield service.key, "spec.ipFamilies[0]", rule, remedy
        return
    held, wanted = stored.status.get("clusterIPs", ()), service.spec["clusterIPs"]
    for position, (was, text) in enumerate(zip(held, wanted, strict=False)):
        if text != was:
            rule = f'Invalid value: "{text}": may not change once set: it is {was}'
            yield service.key, f"spec.clusterIPs[{position}]", rule, remedy
            return


def _holders(before: Snapshot, after: Snapshot) -> dict[str, str]:
    """Return who has an address or requests it first, by address."""
    holders = dict.fromkeys(_shared(after), f"the setting {SHARED_SERVICES}")
    holders |= _allocated(before, after)
    for service in after.of_kind(SERVICE):
        for text in service.spec["clusterIPs"]:
            if text not in _HEADLESS:
                holders.setdefault(text, service_owner(service))
    return holders


def _allocated(before: Snapshot, after: Snapshot) -> dict[str, str]:
    """Return the owners that keep their cluster IPs, by address."""
    staying: dict[str, Collection[int]] = {
        service_owner(entry): families_of(entry, after) for entry in after.of_kind(SERVICE) if not is_headless(entry)
    }
    staying |= {entry.key: (4, 6) for entry in after.of_kind(EGRESS)}
    return {
        address: owner
        for version in (4, 6)
        for owner, address in before.allocations.get(cluster_ip_pool(version), {}).items()
        if version in staying.get(owner, ())
    }


def _unavailable(service: StoredObject, after: Snapshot, holders: dict[str, str]) -> Iterator[Refusal]:
    for position, text in enumerate(service.spec["clusterIPs"]):
        if text in _HEADLESS:
            continue
        path, failed = f"spec.clusterIPs[{position}]", f'Invalid value: "{text}": failed to allocate IP {text}'
        address, subnets = ipaddress.ip_address(text), _subnets(after, family(text))
        if not any(_is_usable(address, network_of(subnet)) for subnet in subnets):
            rule = f"{failed}: provided IP is not in the valid range. The range of valid IPs is {', '.join(subnets)}"
            yield service.key, path, rule, "choose an address in it, or leave it out"
        elif holders[text] != service_owner(service):
            rule = f"{failed}: provided IP is already allocated to {holders[text]}"
            yield service.key, path, rule, "choose another one, or leave it out"


def _is_usable(address, subnet) -> bool:
    ends = {subnet.network_address, *((subnet.broadcast_address,) if subnet.version == 4 else ())}
    return address in subnet and address not in ends
