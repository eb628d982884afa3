# SPDX-License-Identifier: Apache-2.0
"""Expected north-south flows: which must leave or enter a network and which must not, from the plan. Pure.

| kind | must reach |
|---|---|
| workload to external host | from its primary network, as the node's own address, or as one of its EgressIP |
| external host to workload | never: workloads' addresses mean nothing on the provider network |
| workload to own host | from the default network only (OKEP-5193: to other networks the host is not there) |
| workload to other host | as any provider address |
| host to workload | on the default network, unless the workload's primary network is another one (`udn-isolation`) |
| host in VRF to workload | on the VRF's network |
| workload to service | the shared ones, from the default and every primary network (OKEP-5193, "Services") |
| workload to cluster IP | see `cluster_ip_expectations.py` |
| external host, host, workload to entrance | see `entrance_expectations.py` and `entrance_clients.py`; at other \
addresses than on the provider network `node_port_expectations.py` |
| external host to service | never: whatever node it has a route through, services are for hosts and workloads |

Where a flow must reach, the policies of its workload have to permit it as well; a host's own workloads always accept
packets from it.

The number of flows grows with workloads, not with their square: a host sends to its own workloads and the next node's,
a workload to its own host and the next node. Every workload sends to external hosts; for each other kind one workload
of each network, host and family is chosen (`selection.py`), unless all pairs are wanted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from itertools import chain

from ...common.addressing import family, plain
from ...common.naming import DEFAULT_NETWORK, LOCKED_ROLE
from ...render.coil.node_address import node_address
from ...render.common.node_network import NodeNetwork, is_mesh
from ...render.common.provider import Provider, provider_of
from ...render.host.links_and_routes import render_host_network
from ...render.host.mesh_gateway import why_no_gateway
from ..probing.datagram import PORT
from .cluster_ip_expectations import ClusterIpFlows
from .egress_addresses import EgressAddresses
from .entrance_clients import EntranceClients
from .entrance_expectations import EntranceFlows
from .expectation import askers, default_elsewhere, primary_network
from .external_flow import (
    FROM_EXTERNAL,
    FROM_EXTERNAL_TO_SERVICE,
    FROM_HOST,
    FROM_VRF,
    TO_EXTERNAL,
    TO_OTHER_HOST,
    TO_OWN_HOST,
    TO_SERVICE,
    ExternalFlow,
)
from .firewall_permissions import FirewallPermissions
from .flow_classes import chosen
from .node_port_expectations import NodePortFlows
from .policy_permissions import EGRESS, INGRESS, PolicyPermissions
from .pool_flows import pool_flows, through_egress, untested_pools
from .pools import without_pools
from .selection import ALL, Selection
from .service_endpoints import ServiceEndpoints, Untested, lines_of


def in_vrf(node: str, network: str) -> str:
    """Return the name of a node as a source of packets within a network's VRF."""
    return f"{node} vrf {network}"


def vrf_devices(plan: dict, node: str) -> dict[str, str]:
    """Return the node's VRF devices by network; none where its kernel has no VRFs."""
    if provider_of(plan["nodes"][node]) is None:
        return {}
    return {vrf.network: vrf.name for vrf in render_host_network(plan, node).vrfs}


def host_addresses(plan: dict, node: str) -> list[str]:
    """Return a node's address on the provider network of each family.

    Without an uplink, those by which workloads with an address of a pool reach it; none where there are none.
    """
    described = plan["nodes"].get(node, {})
    provider = provider_of(described)
    if provider is None and not plan.get("coil", {}).get("workloads"):
        return []
    found = (provider.address(version) if provider else node_address(described, version) for version in (4, 6))
    return [address for address in found if address]


def external_flows(
    plan: dict, external: dict[str, list[str]], runner: str | None = None, selection: Selection | None = None
) -> list[ExternalFlow]:
    """Return the expected north-south packets; `runner`: only those that it sends.

    `external` maps each external host to its addresses on the provider network, and on networks of NICs of nodes.
    """
    return flows_and_untested(plan, external, runner, selection)[0]


def flows_and_untested(
    plan: dict, external: dict[str, list[str]], runner: str | None = None, selection: Selection | None = None
) -> tuple[list[ExternalFlow], list[Untested]]:
    """Return the same and, each once, the ports of Services that such packets are not sent to."""
    selection = (selection or Selection()).seeded(plan)
    found = _ExternalFlows(plan, external, selection)
    sent = (one for node in plan["nodes"] if runner in (None, node) for one in found.from_node(node))
    frames = (one for name in external if runner in (None, name) for one in found.from_external(name))
    pools = pool_flows(plan, {node: host_addresses(plan, node) for node in plan["nodes"]}, found.external, runner)
    every: list[ExternalFlow] = []
    untested: dict[Untested, None] = {}
    for one in chain(sent, frames, pools):
        if isinstance(one, Untested):
            untested[one] = None
        else:
            every.append(one)
    untested.update(dict.fromkeys(found.clients.unasked()))
    return every if selection.pairs == ALL else chosen(every, plan, selection), list(untested)


def left_out(plan: dict, external: dict[str, list[str]], untested: list[Untested] | None = None) -> list[str]:
    """Return one line for each kind of packet that could not be tested, with the reason.

    `untested` is what `flows_and_untested` returned, if it was called before.
    """
    of_services = lines_of(flows_and_untested(plan, external)[1] if untested is None else untested)
    providers = {name: provider_of(node) for name, node in plan["nodes"].items()}
    if not any(providers.values()):
        pools = untested_pools(plan, external)
        return pools if not without_pools(plan)["networks"] else [
            "no host has external connectivity", *of_services, *pools
        ]  # fmt: skip
    lines = []
    if not any(external.values()):
        lines.append("external: the inventory has no group heddle_external with heddle_addresses")
    closed = [name for name, provider in providers.items() if provider is None]
    if closed:
        names = ", ".join(closed)
        lines.append(f"hosts: {names}: no external connectivity, so nothing passes between them and their workloads")
    flat = [name for name, provider in providers.items() if provider and not provider.vrf]
    if flat:
        lines.append(
            f"{FROM_VRF}: not possible without VRFs, which the kernel of {', '.join(flat)} lacks; shared services are "
            "reached over the provider bridge there"
        )
    found = _ExternalFlows(plan, external, Selection().seeded(plan))
    # A shared service has an entry for each family.
    decided: dict[str, set[str]] = {}
    for service in plan.get("settings", {}).get("shared_services", []):
        names = {name for name in found.plan["workloads"] if found.is_under_policies(name, service)}
        decided.setdefault(service["name"], set()).update(names)
    lines += [
        f"{name}: not tested from workloads for which policies decide about packets to it ({len(names)})"
        for name, names in decided.items()
        if names
    ]
    for name, workload in askers(plan)["workloads"].items():
        for number, interface in default_elsewhere(workload).items():
            lines.append(f"{name}: its IPv{number} default route leads out of {interface}, which is not tested")
    lines += found.cluster_ips.untested() + found.clients.untested() + found.node_ports.untested() + of_services
    return lines + found.firewalls.untested() + found.egress.untested() + untested_pools(plan, external)


class _ExternalFlows:
    def __init__(self, plan: dict, external: dict[str, list[str]], selection: Selection) -> None:
        plan = without_pools(plan)
        self.plan = askers(plan)
        self.policies, self.firewalls = PolicyPermissions(plan), FirewallPermissions(plan)
        self.egress = EgressAddresses(plan)
        endpoints = ServiceEndpoints(plan, self.policies)
        self.entrances = EntranceFlows(plan, endpoints)
        permissions = self.policies, self.firewalls, self.egress
        self.node_ports = NodePortFlows(plan, self.entrances, external, selection)
        self.external = self.node_ports.on_provider_network()
        ways = self.entrances, self.node_ports
        self.clients = EntranceClients(self.plan, ways, endpoints, permissions, selection)
        self.on_node: dict[str, list[str]] = {node: [] for node in plan["nodes"]}
        for name, workload in self.plan["workloads"].items():
            self.on_node[workload["node"]].append(name)
        able = [name for name, one in plan["nodes"].items() if provider_of(one)]
        self.following = dict(zip(able, [*able[1:], *able[:1]], strict=True))
        self.cluster_ips = ClusterIpFlows(self.plan, endpoints)

    def from_node(self, node: str) -> Iterator[ExternalFlow | Untested]:
        provider = provider_of(self.plan["nodes"][node])
        for name in self.on_node[node]:
            yield from self._to_services(name, provider)
            yield from self.cluster_ips.flows(name)
            if provider:
                yield from self._to_external(name, provider)
                yield from self._to_hosts(name, node, provider)
        if provider:
            yield from self._from_host(node)
            yield from self.entrances.from_host(node)
            yield from self.node_ports.from_host(node)
            yield from self.clients.flows(node)
        yield from self.node_ports.from_other_host(node)

    def from_external(self, runner: str) -> Iterator[ExternalFlow | Untested]:
        for name, workload in self.plan["workloads"].items():
            provider = provider_of(self.plan["nodes"][workload["node"]])
            for interface, address in self._interfaces(name) if provider else ():
                own = next((one for one in self.external[runner] if family(one) == family(address)), None)
                if own:
                    yield ExternalFlow(
                        FROM_EXTERNAL, runner, runner, name, name, interface["network"], family(address), address,
                        False, "external hosts do not reach workloads", seen_as=own, mac=provider.mac,
                    )  # fmt: skip
        for node in self.plan["nodes"]:
            yield from self._services_through(runner, node)
            yield from self.entrances.from_external(runner, self.external[runner], node)
            yield from self.node_ports.from_external(runner, node)

    def _services_through(self, runner: str, node: str) -> Iterator[ExternalFlow]:
        """Frames to the node's MAC, as a host with a route to the services by way of that node sends them."""
        provider = provider_of(self.plan["nodes"][node])
        for service in self.plan.get("settings", {}).get("shared_services", []) if provider else ():
            number = family(service["address"])
            own = next((one for one in self.external[runner] if family(one) == number), None)
            for port in (one for one in service["ports"] if own and one["protocol"] != "SCTP"):
                target = f"{service['name']} {port['protocol']} {port['port']} through {node}"
                yield ExternalFlow(
                    FROM_EXTERNAL_TO_SERVICE, runner, runner, target, "", "", number, service["address"], False,
                    "services are not reached from the provider network", seen_as=own, mac=provider.mac,
                    protocol=port["protocol"], port=port["port"], through=node,
                )  # fmt: skip

    def _interfaces(self, name: str) -> list[tuple[dict, str]]:
        """Return interfaces and addresses, except those directly on the provider network."""
        return [
            (interface, plain(address))
            for interface in self.plan["workloads"][name]["interfaces"]
            if self.plan["networks"][interface["network"]]["topology"] != "Localnet"
            for address in interface["addresses"]
        ]

    def _mtu(self, network: str) -> int:
        return min(self.plan["networks"][network]["mtu"], self.plan["settings"]["mtu"])

    def _leaves(self, network: str, provider: Provider, address: str) -> tuple[bool, str]:
        version = family(address)
        if version not in self.plan["networks"][network]["families"]:
            return False, f"{network} has no IPv{version}"
        if refusal := why_no_gateway(self.plan, network, provider):
            return False, refusal
        if provider.address(version) is None:
            return False, f"the node has no IPv{version} address on the provider network"
        near = any(ipaddress.ip_address(address) in ipaddress.ip_network(one) for one in provider.networks(version))
        if not near and provider.next_hop(version) is None:
            return False, f"the node has no IPv{version} gateway"
        return True, f"{network} has external connectivity on its node"

    def _to_external(self, name: str, provider: Provider) -> Iterator[ExternalFlow]:
        network, node = primary_network(self.plan, name), self.plan["workloads"][name]["node"]
        elsewhere = default_elsewhere(self.plan["workloads"][name])
        for target, addresses in self.external.items():
            for address in addresses:
                if family(address) in elsewhere or through_egress(self.plan, name, address):
                    continue
                if self.egress.has_table(name) or self.egress.by_nic(name, family(address)):
                    continue
                if self.firewalls.by_name(network, name, address, "UDP", PORT):
                    continue
                sources = self.egress.of(name, family(address))
                results = [self._leaves(network, one, address) for one in sources.values() or [provider]]
                # Connections are distributed over the holders of addresses: they pass where all of them can send.
                result = self._permitted(name, network, address, min(results))
                yield ExternalFlow(
                    TO_EXTERNAL, node, name, target, name, "", family(address), address, *result,
                    seen_as="" if sources else provider.address(family(address)) or "", sources=tuple(sources),
                    mtu=self._mtu(network) if result[0] else 0,
                )  # fmt: skip

    def _to_hosts(self, name: str, node: str, provider: Provider) -> Iterator[ExternalFlow]:
        network = primary_network(self.plan, name)
        for host in (node, *self._next_to(node)):
            for address in host_addresses(self.plan, host):
                if self._is_unclear(name, network, address):
                    continue
                result, more = self._permitted(name, network, address, self._leaves(network, provider, address)), {}
                if host != node:
                    seen_as = provider.address(family(address)) or ""
                    more = {"seen_as": seen_as, "mtu": self._mtu(network) if result[0] else 0}
                elif is_mesh(self.plan["networks"][network]):
                    result = False, f"in {network} the host is reached as its gateway only"
                elif network != DEFAULT_NETWORK:
                    result = False, f"in {network} the host's own address is its gateway router's"
                kind = TO_OWN_HOST if host == node else TO_OTHER_HOST
                yield ExternalFlow(kind, node, name, host, name, "", family(address), address, *result, **more)

    def _is_unclear(self, name: str, network: str, address: str) -> bool:
        """Return whether another interface, an Egress or a name of a firewall decides about packets to a host."""
        return bool(
            family(address) in default_elsewhere(self.plan["workloads"][name])
            or through_egress(self.plan, name, address)
            or self.firewalls.by_name(network, name, address, "UDP", PORT)
        )

    def _next_to(self, node: str) -> list[str]:
        return [following] if (following := self.following[node]) != node else []

    def _from_host(self, node: str) -> Iterator[ExternalFlow]:
        vrfs = vrf_devices(self.plan, node)
        for name in (name for place in (node, *self._next_to(node)) for name in self.on_node[place]):
            for interface, address in self._interfaces(name):
                network, version = interface["network"], family(address)
                reach, reason = network == DEFAULT_NETWORK, "hosts are in the default network"
                if network != DEFAULT_NETWORK:
                    reason = f"a host is in {network} only through its VRF"
                elif interface["role"] == LOCKED_ROLE:
                    reach, reason = False, f"{network} is locked for {name}, whose primary network is another one"
                refusal = self._refused(node, name, network, address)
                if reach and refusal:
                    reach, reason = False, refusal
                yield ExternalFlow(
                    FROM_HOST, node, node, name, name, network, version, address, reach, reason,
                    mtu=self._mtu(network) if reach else 0,
                )  # fmt: skip
                # On Layer2 all hosts have one address, so a workload elsewhere answers its own host.
                here = self.plan["workloads"][name]["node"] == node
                if network in vrfs and (here or self.plan["networks"][network]["topology"] == "Layer3"):
                    yield ExternalFlow(
                        FROM_VRF, node, in_vrf(node, network), name, name, network, version, address, not refusal,
                        refusal or f"the host has an interface in {network}", mtu=0 if refusal else self._mtu(network),
                    )  # fmt: skip

    def is_under_policies(self, name: str, service: dict) -> bool:
        """Return whether policies of a workload or of an endpoint decide about packets to a service."""
        return self.policies.isolates(EGRESS, primary_network(self.plan, name), name) or any(
            self.policies.isolates(INGRESS, DEFAULT_NETWORK, endpoint) for endpoint in service["endpoints"]
        )

    def _permitted(
        self, name: str, network: str, address: str, result: tuple[bool, str], protocol: str = "UDP", port: int = PORT
    ) -> tuple[bool, str]:
        """Return the expected result of what a workload sends beyond its network; `result` is that without policies."""
        if not result[0]:
            return result
        refusal = self.policies.refusal(network, name, "", ("", address), protocol, port)
        refusal = refusal or self.firewalls.refusal(network, name, address, protocol, port)
        return (False, refusal) if refusal else result

    def _refused(self, node: str, name: str, network: str, address: str) -> str:
        """Return why the policies of a workload refuse a packet from a node's interface in its network."""
        if self.plan["workloads"][name]["node"] == node or not self.policies.isolates(INGRESS, network, name):
            return ""
        own = NodeNetwork(self.plan, network, node, []).management_addresses()
        sender = next((one for one in own if family(one) == family(address)), "")
        return self.policies.refusal(network, "", name, (sender, address), "UDP", PORT)

    def _to_services(self, name: str, provider: Provider | None) -> Iterator[ExternalFlow]:
        network, node = primary_network(self.plan, name), self.plan["workloads"][name]["node"]
        families = self.plan["networks"][network]["families"]
        for service in self.plan.get("settings", {}).get("shared_services", []):
            if self.is_under_policies(name, service):
                continue
            version = family(service["address"])
            result = True, f"{service['name']} serves every network"
            if version not in families:
                result = False, f"{network} has no IPv{version}"
            elif network != DEFAULT_NETWORK and provider is None:
                result = False, "the node has no external connectivity"
            elif refusal := why_no_gateway(self.plan, network, provider):
                result = False, refusal
            for port in (one for one in service["ports"] if one["protocol"] != "SCTP"):
                target = f"{service['name']} {port['protocol']} {port['port']}"
                if self.firewalls.by_name(network, name, service["address"], port["protocol"], port["port"]):
                    continue
                # On the default network a firewall is about the endpoint, which the address has become by then.
                ends = (name, network, service["address"], result, port["protocol"], port["port"])
                wanted = result if network == DEFAULT_NETWORK else self._permitted(*ends)
                yield ExternalFlow(
                    TO_SERVICE, node, name, target, name, "", version, service["address"], *wanted,
                    protocol=port["protocol"], port=port["port"],
                )  # fmt: skip
