# SPDX-License-Identifier: Apache-2.0
"""Chooses the flows to measure during a change, from the plan. Pure.

All hosts choose the same flows. A flow belongs to workloads, not to hosts: whichever host has the source sends.

| kind | protocol | every | from | to |
|---|---|---|---|---|
| probe | UDP, answered | 10 ms | workload | next workload; external host |
| probe | ICMP echo | 50 ms | workload | join address of a node's gateway router |
| long | one TCP connection, a line and its echo | 100 ms | workload | next workload; external host |
| new | a TCP connection each time | 100 ms | workload | external host; address of a Service of its network |
| new | a TCP connection each time | 200 ms | external host | node ports of all nodes, load balancer of one Service |

What workloads of an EgressIP send to the external host has a kind of its own. With an EgressService, workloads of one
further Layer2 network send UDP and new TCP connections there.

Nothing is bound to the ports of Services, which are those of applications: a refused connection has reached an
endpoint as well.

Where hosts have little processor time, all of these may be sent less often (`at_most_every`).

Beside the Layer2 networks, which an upgrade changes, one Layer3 network is measured, which it does not change: what is
lost there is lost by the hosts themselves (kind "comparison").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..common.addressing import family, nth_interface, plain
from ..common.naming import DEFAULT_NETWORK, workload_namespace

UDP, ICMP, LONG, NEW = "udp", "icmp", "long tcp", "new tcp"
EAST_WEST, NORTH_SOUTH, TO_JOIN, COMPARISON = "east-west", "north-south", "to join address", "comparison"
TO_SERVICE, BY_SERVICE, BY_EGRESS_IP = "to service", "by egress service", "by egress ip"
TO_NODE_PORT, TO_LOAD_BALANCER = "to node port", "to load balancer"
# Where applications answer, or refuse.
TO_APPLICATIONS = (TO_SERVICE, TO_NODE_PORT, TO_LOAD_BALANCER)
# Milliseconds from one packet to the next.
INTERVALS_MS = {UDP: 10, ICMP: 50, LONG: 100, NEW: 100}
# Of external hosts, which send to each node.
ENTRANCE_INTERVAL_MS = 200
# How many networks and how many workloads of each are measured: limited by one processor.
NETWORKS, WORKLOADS, STEERED = 2, 4, 2


@dataclass(frozen=True, slots=True)
class Flow:
    """Packets from a workload or external host to an address; `target` is what has it: workload, node, host, Service.

    Of a Service `port` is its own one, and `endpoints` are its workloads.
    """

    kind: str
    protocol: str
    network: str
    source: str
    target: str
    family: int
    address: str
    interval: int
    port: int | None = None
    endpoints: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name that is unique among all flows."""
        return f"{self.kind} {self.protocol} {self.source} -> {self.target} {self.address}"


@dataclass(frozen=True, slots=True)
class Answerer:
    """An address that answers: of a workload, or of an external host, which has no namespace."""

    owner: str
    namespace: str | None
    address: str


def chosen_workloads(plan: dict, networks: int = NETWORKS, workloads: int = WORKLOADS) -> dict[str, list[str]]:
    """Return workloads by primary network, on as many nodes as possible, in an order independent of moves.

    Networks with more workloads come first; of equal ones those with Services, then those with more families. The first
    other one with an EgressService follows, with workloads of that; the last is the first Layer3 one with several
    workloads.
    """
    found = {topology: _primary(plan, topology) for topology in ("Layer2", "Layer3")}
    count = {network: sum(map(len, nodes.values())) for network, nodes in found["Layer2"].items()}
    served, families = plan.get("services", {}), {name: one["families"] for name, one in plan["networks"].items()}
    order = sorted(count, key=lambda one: (-count[one], one not in served, -len(families[one]), one))
    compared = sorted(network for network, nodes in found["Layer3"].items() if sum(map(len, nodes.values())) > 1)
    placed = found["Layer2"] | found["Layer3"]
    chosen = {network: sorted(_spread(placed[network])[:workloads]) for network in order[:networks]}
    chosen |= _steered(plan, [one for one in order if one not in chosen], found["Layer2"])
    return chosen | {network: sorted(_spread(placed[network])[:workloads]) for network in compared[:1]}


def _steered(plan: dict, networks: list[str], placed: dict[str, dict[str, list[str]]]) -> dict[str, list[str]]:
    """Return workloads of an EgressService by their network; none where a firewall may drop what they send."""
    for network in networks:
        firewalls = plan.get("egress_firewalls", {}).get(network, ())
        filtered = {workload for firewall in firewalls for workload in firewall["workloads"]}
        for _name, entry in sorted(plan.get("egress_services", {}).get(network, {}).items()):
            steered = set(entry["workloads"]) - filtered
            found = {node: [name for name in names if name in steered] for node, names in placed[network].items()}
            chosen = sorted(_spread(found)[:STEERED])
            if chosen:
                return {network: chosen}
    return {}


def _primary(plan: dict, topology: str) -> dict[str, dict[str, list[str]]]:
    """Return the workloads of user-defined primary networks of a topology, by network and node."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, workload in sorted(plan["workloads"].items()):
        for interface in workload["interfaces"]:
            network = interface["network"]
            wanted = network != DEFAULT_NETWORK and plan["networks"][network]["topology"] == topology
            if workload["kind"] == "netns" and interface["role"] == "primary" and wanted and interface["addresses"]:
                found.setdefault(network, {}).setdefault(workload["node"], []).append(name)
    return found


def _spread(by_node: dict[str, list[str]]) -> list[str]:
    """Return the names of all nodes in turn."""
    longest = max(map(len, by_node.values()))
    return [names[turn] for turn in range(longest) for _node, names in sorted(by_node.items()) if turn < len(names)]


def flows(plan: dict, chosen: dict[str, list[str]], external: dict[str, list[str]]) -> list[Flow]:
    """Return the flows of these workloads; `external` has addresses of external hosts."""
    found, leaving = [], _with_egress_ips(plan)
    for network, names in chosen.items():
        for place, source in enumerate(names):
            following = names[(place + 1) % len(names)]
            if plan["networks"][network]["topology"] == "Layer3":
                for address in _addresses(plan, following, network):
                    found += _flows(COMPARISON, (UDP,), network, source, following, address)
                continue
            steered = _is_steered(plan, network, source)
            if following != source and not steered:
                for address in _addresses(plan, following, network):
                    found += _flows(EAST_WEST, (UDP, LONG), network, source, following, address)
            families = {family(address) for address in _addresses(plan, source, network)}
            families -= _default_elsewhere(plan, source)
            for host, addresses in external.items():
                for address in (one for one in addresses if family(one) in families):
                    way = BY_EGRESS_IP if (network, source) in leaving else NORTH_SOUTH
                    kind, protocols = (BY_SERVICE, (UDP, NEW)) if steered else (way, (UDP, LONG, NEW))
                    found += _flows(kind, protocols, network, source, host, address)
            if steered:
                continue
            for node, address in _join_addresses(plan, network, place + 1):
                found += _flows(TO_JOIN, (ICMP,), network, source, node, address)
            found += _to_service(plan, network, source)
    return found


def at_most_every(interval: int, sent: list[Flow]) -> list[Flow]:
    """Return flows of which none sends more often than every `interval` milliseconds."""
    return [replace(flow, interval=max(flow.interval, interval)) for flow in sent]


def _with_egress_ips(plan: dict) -> set[tuple[str, str]]:
    """Return the networks and workloads that leave with the address of an EgressIP."""
    return {
        (network, workload)
        for entry in plan.get("egress_ips", {}).values()
        for network, workloads in entry["workloads"].items()
        for workload in workloads
    }


def _is_steered(plan: dict, network: str, workload: str) -> bool:
    """Return whether a workload leaves with the address of a load balancer."""
    entries = plan.get("egress_services", {}).get(network, {}).values()
    return any(workload in entry["workloads"] for entry in entries)


def _flows(kind: str, protocols: tuple, network: str, source: str, target: str, address: str) -> Iterator[Flow]:
    for protocol in protocols:
        yield Flow(kind, protocol, network, source, target, family(address), address, INTERVALS_MS[protocol])


def _to_service(plan: dict, network: str, source: str) -> Iterator[Flow]:
    """Yield the flows to the network's first Service with a TCP port, in the families that its endpoints have."""
    owners = _owners(plan, network)
    for name, service in sorted(plan.get("services", {}).get(network, {}).items()):
        for port in (one for one in service["ports"] if one["protocol"] == "TCP" and one["endpoints"]):
            for address in service["addresses"]:
                if (endpoints := _endpoints(owners, port, family(address))) is not None:
                    for flow in _flows(TO_SERVICE, (NEW,), network, source, name, address):
                        yield replace(flow, port=port["port"], endpoints=endpoints)
            return


def _owners(plan: dict, network: str) -> dict[str, str]:
    """Return the workloads of a network by address."""
    return {
        plain(address): name
        for name, workload in plan["workloads"].items()
        for interface in workload["interfaces"]
        if interface["network"] == network
        for address in interface["addresses"]
    }


def _endpoints(owners: dict[str, str], port: dict, version: int) -> tuple[str, ...] | None:
    """Return the workloads behind a port of a Service; None without endpoints of the family."""
    behind = {one["address"] for one in port["endpoints"] if family(one["address"]) == version}
    return tuple(sorted({owners[one] for one in behind if one in owners})) if behind else None


def entrance_flows(plan: dict, chosen: dict[str, list[str]], source: str, addresses: list[str]) -> list[Flow]:
    """Return what an external host with these addresses sends to the first Service that it reaches on all nodes.

    It has a TCP port, no source ranges and the policy Cluster: with Local, a node without endpoints refuses.
    """
    versions = {family(address) for address in addresses}
    for network in chosen:
        if plan["networks"][network]["topology"] != "Layer2":
            continue
        for name, service in sorted(plan.get("services", {}).get(network, {}).items()):
            external = service.get("external")
            if not external or external["traffic_policy"] == "Local" or external["source_ranges"]:
                continue
            for port in (one for one in service["ports"] if one["protocol"] == "TCP" and "node_port" in one):
                found = list(_to_entrances(plan, network, source, name, port))
                if found := [flow for flow in found if flow.family in versions]:
                    return found
    return []


def _to_entrances(plan: dict, network: str, source: str, name: str, port: dict) -> Iterator[Flow]:
    owners, external = _owners(plan, network), plan["services"][network][name]["external"]
    balanced = [(TO_LOAD_BALANCER, name, one["address"], port["port"]) for one in external["load_balancer"]]
    nodes = [
        (TO_NODE_PORT, f"{name} of {node}", plain(address), port["node_port"])
        for node, described in plan["nodes"].items()
        for address in (described.get("gateway") or {}).get("addresses", ())
    ]
    for kind, target, address, number in (*nodes, *balanced):
        endpoints = _endpoints(owners, port, family(address))
        if endpoints is not None:
            yield Flow(
                kind, NEW, network, source, target, family(address), address, ENTRANCE_INTERVAL_MS, number, endpoints
            )


def _addresses(plan: dict, workload: str, network: str) -> list[str]:
    return [
        plain(address)
        for interface in plan["workloads"][workload]["interfaces"]
        if interface["network"] == network
        for address in interface["addresses"]
    ]


def _default_elsewhere(plan: dict, workload: str) -> set[int]:
    """Return the families whose default route leads out of a secondary network of the workload."""
    return {
        family(route["via"])
        for interface in plan["workloads"][workload]["interfaces"]
        if interface["role"] == "secondary"
        for route in interface["routes"]
        if route["to"] in ("0.0.0.0/0", "::/0")
    }


def _join_addresses(plan: dict, network: str, place: int) -> list[tuple[str, str]]:
    # The network is on the nodes of these workloads at least.
    nodes = plan["networks"][network].get("nodes") or list(plan["nodes"])
    node = nodes[place % len(nodes)]
    node_id = plan["nodes"][node]["id"]
    return [(node, plain(nth_interface(subnet, node_id))) for subnet in plan["networks"][network]["join_subnets"]]


def answerers(plan: dict, chosen: dict[str, list[str]]) -> list[Answerer]:
    """Return the addresses of these workloads, independent of their host."""
    return [
        Answerer(name, workload_namespace(workload["namespace"], workload["name"]), address)
        for network, names in chosen.items()
        for name in names
        for workload in (plan["workloads"][name],)
        for address in _addresses(plan, name, network)
    ]


def sources(plan: dict, chosen: dict[str, list[str]]) -> dict[str, str]:
    """Return the network namespace of each of these workloads."""
    return {
        name: workload_namespace(plan["workloads"][name]["namespace"], plan["workloads"][name]["name"])
        for names in chosen.values()
        for name in names
    }
