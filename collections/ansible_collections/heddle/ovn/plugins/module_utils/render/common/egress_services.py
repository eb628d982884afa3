# SPDX-License-Identifier: Apache-2.0
"""What one node has to do with the EgressServices of a network: workloads that leave with a load balancer's address.

Shared by rows, flows of the provider bridge, and the host's rules. For one address of a workload one object applies:
an EgressService comes before that of an EgressIP, as in ovn-kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...common.addressing import family, is_within, plain
from ...common.naming import DEFAULT_NETWORK, LOCKED_ROLE
from .hosting_nodes import hosting_nodes
from .moving import UNANNOUNCED, moving_addresses
from .node_network import NodeNetwork, is_on

# `host` of an EgressService in the plan, where endpoints leave by their own nodes.
ALL_HOSTS = "ALL"


@dataclass(frozen=True)
class Steered:
    """One address of a workload, and the address of the load balancer that it leaves with by a host.

    `name` is that of the EgressService. `host` is "" where that host does not have the network. `mark` is 0 on the
    default network. `local`: the workload is, or may soon be, on this node. `handed`: this node gets the address of the
    load balancer, or has given it up, and is not the host (`handover.py`).
    """

    name: str
    address: str
    external: str
    host: str
    mark: int
    local: bool
    handed: bool = False

    def translated_by(self, node: str) -> bool:
        """Return whether the kernel of a node gives packets the address, if only for a flow to drop them."""
        return self.host == node or self.handed


def steered(view: NodeNetwork) -> list[Steered]:
    """Return the addresses on the network of all workloads that leave by one host, wherever they run.

    A family in which the Service has no address of a load balancer is left out.
    """
    found = []
    for name, entry in view.egress_services.items():
        externals = {family(text): text for text in entry["addresses"]}
        host = entry["host"] if _is_able(view, entry["host"]) else ""
        handed = set(moving_addresses(entry)) if host != view.node else set()
        for workload, address in _addresses(view, entry):
            external = externals.get(family(address))
            if external and (host or external in handed):
                local = view.node in hosting_nodes(workload)
                found.append(
                    Steered(name, address, external, host, entry.get("mark", 0), local, handed=external in handed)
                )
    return found


def held_service_marks(view: NodeNetwork) -> list[tuple[int, str]]:
    """Return mark and address of each EgressService of a user-defined network whose host the node is."""
    hidden = view.plan.get(UNANNOUNCED, ())
    return [
        (entry["mark"], address)
        for entry in view.egress_services.values()
        if entry["host"] == view.node and "mark" in entry
        for address in entry["addresses"]
        if address not in hidden
    ]


def withheld_services(view: NodeNetwork) -> list[tuple[int, str]]:
    """Return mark and address of each EgressService with which nothing may leave here, since it moves (`handover.py`).

    The mark is 0 on the default network.
    """
    hidden = view.plan.get(UNANNOUNCED, ())
    return [
        (entry.get("mark", 0), address)
        for entry in view.egress_services.values()
        for address in entry["addresses"]
        if (address in hidden if entry["host"] == view.node else address in moving_addresses(entry))
    ]


def leaving_addresses(plan: dict, node: str) -> set[str]:
    """Return the addresses of load balancers that connections of workloads leave this node with."""
    return {
        address
        for entries in plan.get("egress_services", {}).values()
        for entry in entries.values()
        for address in entry["addresses"]
        if entry["host"] == node or address in moving_addresses(entry)
    }


def translates_for_services(plan: dict, node: str) -> bool:
    """Return whether the kernel of a node gives packets of workloads the address of a load balancer."""
    entries = plan.get("egress_services", {}).get(DEFAULT_NETWORK, {})
    return any(entry["host"] == node or moving_addresses(entry) for entry in entries.values())


def routed_sources(view: NodeNetwork) -> Iterator[tuple[str, str, int]]:
    """Yield what this node routes by a table of its own: table, source address, and source port or 0 for any.

    Those of all endpoints on the host of an EgressService, of its own endpoints where every node is one, and of what
    the Service answers: its cluster IPs and, with the external traffic policy Local, its ports at the masquerade
    address of local services.
    """
    local = view.masquerade(NodeNetwork.LOCAL_SERVICE_MASQUERADE)
    for entry in view.egress_services.values():
        if not entry["table"] or entry["host"] not in (view.node, ALL_HOSTS):
            continue
        for workload, address in _addresses(view, entry):
            if entry["host"] == view.node or view.node in hosting_nodes(workload):
                yield entry["table"], address, 0
        for address in entry["cluster_ips"]:
            yield entry["table"], address, 0
        for port in entry["node_ports"]:
            for address in local:
                yield entry["table"], address, port


def addresses_of_nodes(view: NodeNetwork) -> list[str]:
    """Return those that are not in the network: to its own addresses on nodes it has tunnels."""
    found: dict[str, None] = {}
    for node in view.plan["nodes"].values():
        others = [one for addresses in node.get("other_addresses", {}).values() for one in addresses]
        gateway = (node.get("gateway") or {}).get("addresses", ())
        for address in (*gateway, *node["addresses"], *node["encap_ips"], *others):
            found[plain(address)] = None
    return [one for one in found if not is_within(one, view.network["subnets"])]


def _is_able(view: NodeNetwork, host: str) -> bool:
    node = view.plan["nodes"].get(host)
    return bool(node and node["chassis"] and node["gateway"] and is_on(view.network, host))


def _addresses(view: NodeNetwork, entry: dict) -> Iterator[tuple[dict, str]]:
    """Yield the addresses of an EgressService's workloads on the network, each with its workload."""
    for name in entry["workloads"]:
        workload = view.plan["workloads"].get(name)
        for interface in workload["interfaces"] if workload else ():
            if interface["network"] == view.name and interface["role"] != LOCKED_ROLE:
                for address in interface["addresses"]:
                    yield workload, plain(address)
