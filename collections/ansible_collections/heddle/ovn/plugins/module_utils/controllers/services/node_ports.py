# SPDX-License-Identifier: Apache-2.0
"""Node ports of Services: allocation, and what an API server refuses (Kubernetes, "Service", type NodePort).

All networks share the ports of the nodes: a number belongs to one Service of the fleet, for all protocols.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...api.services.external_access import CLUSTER_IP, LOAD_BALANCER, LOCAL
from ...api.services.ports import PROTOCOLS
from ...store.snapshot import Snapshot, StoredObject
from ..allocation.pools import Pool, numbers
from .cluster_ips import SERVICE, Refusal, is_headless, service_owner

NODE_PORT_POOL = "node-port"
NODE_PORTS = (30000, 32767)
# The first ports are for requests, the others are allocated first (Kubernetes, KEP-3668: a thirty-second of the range,
# at least 16, at most 128).
_STATIC = (NODE_PORTS[1] - NODE_PORTS[0] + 1) // 32
_HEALTH = "health"


def has_node_ports(service: StoredObject) -> bool:
    """Return whether a port of a Service has a node port."""
    return any(wanted_node_ports(service))


def wanted_node_ports(service: StoredObject) -> list[bool]:
    """Return which ports of a Service have a node port; one that is requested is there whether or not others are."""
    spec = service.spec
    kind = spec.get("type", CLUSTER_IP)
    can_have = kind != CLUSTER_IP and not is_headless(service)
    allocates = kind != LOAD_BALANCER or spec["allocateLoadBalancerNodePorts"]
    return [can_have and bool(allocates or port["nodePort"]) for port in spec["ports"]]


def has_health_check(service: StoredObject) -> bool:
    """Return whether a Service has a port at which nodes say whether they have endpoints."""
    return service.spec.get("type") == LOAD_BALANCER and service.spec["externalTrafficPolicy"] == LOCAL


def node_ports(snapshot: Snapshot, service: StoredObject) -> list[int]:
    """Return the node port of each port of a Service, 0 for none."""
    held = _held(snapshot)
    return [int(held.get(owner, 0)) for owner in _owners(service, held)]


def health_check_port(snapshot: Snapshot, service: StoredObject) -> int:
    """Return the port at which nodes say whether they have endpoints, 0 for none."""
    value = snapshot.get(NODE_PORT_POOL, _health_owner(service)) if has_health_check(service) else None
    return int(value or 0)


def node_port_pools(snapshot: Snapshot) -> Iterator[Pool]:
    """The pool of node ports; requests that `check_node_ports` refuses are not among the claims."""
    owners: dict[str, str] = {}
    asked: dict[str, str] = {}
    # Allocation replaces the pool after this.
    held = _held(snapshot)
    for service in snapshot.of_kind(SERVICE):
        for owner, _path, requested in _claims(service, held):
            owners[owner] = service.key
            if requested:
                asked.setdefault(owner, str(requested))
    if owners:
        first, last = NODE_PORTS
        late, early = numbers(first + _STATIC, last), numbers(first, first + _STATIC - 1)
        yield Pool(
            NODE_PORT_POOL,
            f"node ports {first} to {last}",
            "remove Services of the types NodePort and LoadBalancer",
            lambda taken: (number for part in (late, early) for number in part(taken)),
            owners,
            asked,
        )


def check_node_ports(before: Snapshot, after: Snapshot) -> Iterator[Refusal]:
    """Reject requested ports that are out of range or another Service's, and a changed port of the health check."""
    holders, held = _holders(before, after), _held(before)
    first, last = NODE_PORTS
    for service in after.of_kind(SERVICE):
        for owner, path, requested in _claims(service, held):
            if not requested:
                continue
            if not first <= requested <= last:
                rule = f"provided port is not in the valid range. The range of valid ports is {first}-{last}"
                yield service.key, path, f"Invalid value: {requested}: {rule}", "choose one of it, or leave it out"
            elif holders[str(requested)] != owner:
                other = "/".join(holders[str(requested)].split("/")[:2])
                rule = f"Invalid value: {requested}: provided port is already allocated to Service {other}"
                yield service.key, path, rule, "choose another one, or leave it out"
        yield from _changes(service, before)


def _changes(service: StoredObject, before: Snapshot) -> Iterator[Refusal]:
    stored = before.objects.get(service.key)
    if stored is None:
        return
    remedy = "restore the value, or delete the Service first"
    if stored.spec.get("type") == service.spec["type"] == LOAD_BALANCER:
        old, new = stored.spec["loadBalancerClass"], service.spec["loadBalancerClass"]
        if old != new:
            shown = f'"{new}"' if new else "null"
            rule = f"Invalid value: {shown}: may not change once set: it is {old or 'not set'}"
            yield service.key, "spec.loadBalancerClass", rule, remedy
    if has_health_check(stored) and has_health_check(service):
        held, asked = health_check_port(before, stored), service.spec["healthCheckNodePort"]
        if asked and held and asked != held:
            rule = f"Invalid value: {asked}: field is immutable: it is {held}"
            yield service.key, "spec.healthCheckNodePort", rule, remedy


def _holders(before: Snapshot, after: Snapshot) -> dict[str, str]:
    """Return who keeps a port or requests it first, by port."""
    held = _held(before)
    requests = {
        owner: str(requested)
        for service in after.of_kind(SERVICE)
        for owner, _path, requested in _claims(service, held)
    }
    holders = {value: owner for owner, value in held.items() if requests.get(owner) in ("0", value)}
    for owner, requested in requests.items():
        holders.setdefault(requested, owner)
    return holders


def _held(snapshot: Snapshot) -> Mapping[str, str]:
    return snapshot.allocations.get(NODE_PORT_POOL, {})


def _claims(service: StoredObject, held: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """Yield owner, field and requested port (0 for none) of each node port of a Service."""
    ports = service.spec["ports"]
    places: dict[str, int] = {}
    for number, owner in enumerate(_owners(service, held)):
        # Of ports that share an owner, one that requests it.
        if owner and (owner not in places or (ports[number]["nodePort"] and not ports[places[owner]]["nodePort"])):
            places[owner] = number
    for owner, number in places.items():
        yield owner, f"spec.ports[{number}].nodePort", ports[number]["nodePort"]
    if has_health_check(service):
        yield _health_owner(service), "spec.healthCheckNodePort", service.spec["healthCheckNodePort"]


def _owners(service: StoredObject, held: Mapping[str, str]) -> list[str]:
    """Return who owns the node port of each port, "" where it has none; `held` are the numbers of owners.

    Ports of several protocols have one owner, and so one number, where they request that number together, and where
    they are one number of the Service (Kubernetes, `initNodePorts`).
    """
    ports, wanted = service.spec["ports"], wanted_node_ports(service)
    found = [""] * len(ports)
    requests: dict[str, str] = {}
    for place, port in enumerate(ports):
        if wanted[place] and port["nodePort"]:
            found[place] = requests.setdefault(str(port["nodePort"]), _owner(service, port["protocol"], port["port"]))
    for place, port in enumerate(ports):
        if wanted[place] and not port["nodePort"]:
            taken = {owner for owner, other in zip(found, ports, strict=True) if other["protocol"] == port["protocol"]}
            choices = _choices(service, port, found, requests, held)
            found[place] = next(owner for owner in choices if owner not in taken)
    return found


def _choices(
    service: StoredObject, port: dict, found: list[str], requests: Mapping[str, str], held: Mapping[str, str]
) -> Iterator[str]:
    """Yield who may own the node port of a port that requests none: first who keeps the number that it has."""
    number = port["port"]
    own = _owner(service, port["protocol"], number)
    if own in held:
        # Another protocol may request that number by now.
        yield requests.get(held[own], own)
        yield own
    same = [(owner, one) for owner, one in zip(found, service.spec["ports"], strict=True) if one["port"] == number]
    yield from (owner for owner, one in same if one["nodePort"])
    # That protocol may be gone.
    yield from (owner for protocol in PROTOCOLS if (owner := _owner(service, protocol, number)) in held)
    yield from (_owner(service, one["protocol"], number) for _owner_of_it, one in same if not one["nodePort"])


def _owner(service: StoredObject, protocol: str, port: int) -> str:
    return f"{service_owner(service)}/{protocol}/{port}"


def _health_owner(service: StoredObject) -> str:
    return f"{service_owner(service)}/{_HEALTH}"
