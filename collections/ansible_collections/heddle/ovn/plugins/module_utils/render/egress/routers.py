# SPDX-License-Identifier: Apache-2.0
"""Northbound rows of EgressIPs and EgressServices: which node packets leave by, and their mark at its gateway router.

Policies are on the router next to the workloads: the cluster router (Layer3), the transit router (Layer2; OKEP-5094,
"As an EIP L2 UDN user"). They lead to the gateway router of each node that holds an address, so that connections are
balanced also for workloads of such a node. Priorities and marks are ovn-kubernetes's:

| priority | router | packets |
|---|---|---|
| 102 | next to workloads | within the network, replies, to join addresses, nodes, shared services: as without |
| 101 | next to workloads | of a workload with an EgressService: to its host |
| 100 | next to workloads | of a workload of this node: to the holders |
| 95 | gateway router of a holder | of a workload of any node: marked; the provider bridge has a flow for each mark |

On the default network an address may be on another NIC of its holder. There 100 leads to the management port, with the
mark 1009, for workloads of all nodes (`render/host/egress_nics.py`).

A mark does not cross a tunnel, therefore the gateway router of the holder marks packets. No packet that may go through
a tunnel is marked: Open vSwitch's userspace datapath looks up the tunnel's route by the mark (`ovs-router`) and drops
the packet. On the default network the gateway router translates, as ovn-kubernetes has it. A gateway router on the
switch (Layer2 before the transit router) is the router next to the workloads, too: a workload of a node that holds an
address leaves by that node only.

An EgressService of the default network leads to the management port of its host, whose kernel translates and chooses
the route (`render/host/egress_service_rules.py`). On user-defined networks, which may have equal subnets, it is like an
EgressIP with one address.
"""

from __future__ import annotations

from itertools import product

from ...common.addressing import family, plain
from ...common.naming import cluster_router, gateway_router, layer2_switch, management_port, transit_router
from ...types.ovsdb_row import Parent, Row
from ..common.egress_ips import NODE_ADDRESS_MARK, OTHER_NIC_MARK, Leaving, leaving
from ..common.egress_services import addresses_of_nodes
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import ROUTER, SWITCH, route
from ..policy.policy_rows import address_set, address_set_name, object_ids
from ..topology.layer2_legacy import has_transit_router, to_provider_networks
from ..topology.layer2_transition import is_open

ALLOW_PRIORITY, SERVICE_PRIORITY, REROUTE_PRIORITY, MARK_PRIORITY = 102, 101, 100, 95
REPLY_MARK, REPLY_PRIORITY = 42, 103
# Owner types of the address sets; that of nodes is the default network's, since nodes are the same for all.
NODES_SET, SERVED_SET, STEERED_SET = "ClusterNodeIPs", "EgressIP", "EgressService"
_NODES, _SERVED, _STEERED = "node-ips", "egressip-served-pods", "egresssvc-served-pods"


def render_egress_ips(view: NodeNetwork) -> list[Row]:
    """Return the rows of a network in this node's zone; none where no EgressIP and no EgressService concerns it."""
    if not view.is_primary or view.provider is None:
        return []
    found = leaving(view)
    return _EgressIps(view, found).rows() if found else []


class _EgressIps:
    def __init__(self, view: NodeNetwork, found: list[Leaving]) -> None:
        self._view, self._found = view, found
        self._gateway = gateway_router(view.name, view.node)
        self._on_switch = view.network["topology"] == "Layer2" and not has_transit_router(view)
        if view.network["topology"] == "Layer3":
            self._router = cluster_router(view.name)
        else:
            self._router = self._gateway if self._on_switch else transit_router(view.name)

    def rows(self) -> list[Row]:
        """Return all rows."""
        local = [one for one in self._found if one.local]
        # What is neither marked nor translated would leave with the address of the node.
        translated = [one for one in self._found if one.translated_to(self._view.node)]
        to_host = [one for one in translated if self._is_translated_by_host(one)]
        by_router = [one for one in translated if not self._is_translated_by_host(one)]
        # On the node with the NIC, packets of workloads elsewhere pass the cluster router.
        passing = [one for one in self._found if not one.local and one.is_on_nics(self._view.node)]
        rows = [*self._sets([*local, *passing]), *self._exceptions([*local, *passing])] if local or passing else []
        rows += self._replies(local) if local else []
        rows += [row for one in local for row in self._reroute(one)]
        rows += [row for one in to_host if not one.local for row in self._reroute(one)]
        rows += [row for one in passing for row in self._leave_by_nic(one)]
        # What workloads of other nodes send to this one passes its router as well.
        inside = {family(one.address) for one in to_host} - {family(one.address) for one in [*local, *passing]}
        rows += [row for version in sorted(inside) for row in self._inside(version)]
        rows += [row for one in by_router for row in self._leave(one)]
        rows += self._catch_all() if translated or passing else []
        return rows

    def _is_translated_by_host(self, one: Leaving) -> bool:
        return one.by_service and self._view.is_default

    def _sets(self, local: list[Leaving]) -> list[Row]:
        """Addresses of nodes, and of the workloads that leave by EgressIPs."""
        view = self._view
        return [
            address_set(view, owner_type, name, version, addresses)
            for owner_type, name, addresses in (
                (NODES_SET, _NODES, addresses_of_nodes(view)),
                *(
                    (owner_type, name, [one.address for one in local if one.by_service == by_service])
                    for owner_type, name, by_service in _served_sets(local)
                ),
            )
            for version in view.network["families"]
        ]

    def _exceptions(self, local: list[Leaving]) -> list[Row]:
        """What does not leave, and what is not the beginning of a connection."""
        view = self._view
        rows = [self._allow(f"pkt.mark == {REPLY_MARK}", "ReplyMark"), *self._replies_by_host()]
        for version in sorted({family(one.address) for one in local}):
            target = f"ip{version}.dst"
            rows += self._inside(version)
            served = " || ".join(
                f"ip{version}.src == ${address_set_name(view, owner_type, name, version)}"
                for owner_type, name, _by_service in _served_sets(local)
            )
            served = f"({served})" if "||" in served else served
            nodes = "$" + address_set_name(view, NODES_SET, _NODES, version)
            rows.append(self._allow(f"{served} && {target} == {nodes}", "Nodes", {"pkt_mark": str(NODE_ADDRESS_MARK)}))
            shared = sorted(one for one in view.shared_services() if family(one) == version)
            if shared and not view.is_default:
                rows.append(self._allow(f"{served} && {target} == {{{', '.join(shared)}}}", "Services"))
        return rows

    def _replies_by_host(self) -> list[Row]:
        """In local gateway mode replies to the provider network leave through the node, as other packets do.

        A gateway router on the switch is connected to that network, so that its route would win.
        """
        view = self._view
        if not (self._on_switch and view.provider.is_local):
            return []
        return [
            self._policy(
                self._router, REPLY_PRIORITY, f"pkt.mark == {REPLY_MARK} && {match}", "ReplyByHost", action="reroute",
                nexthops={hop},
            )
            for hop, match in to_provider_networks(view)
        ]  # fmt: skip

    def _inside(self, version: int) -> list[Row]:
        view = self._view
        own = [subnet for subnet in view.network["subnets"] if family(subnet) == version]
        join = [subnet for subnet in view.network["join_subnets"] if family(subnet) == version]
        return [
            self._allow(f"ip{version}.src == {one} && ip{version}.dst == {other}", "Inside")
            for one, other in product(own, [*own, *join])
        ]

    def _allow(self, match: str, name: str, options: dict | None = None) -> Row:
        return self._policy(self._router, ALLOW_PRIORITY, match, name, action="allow", options=options or {})

    def _policy(self, on: str, priority: int, match: str, name: str, owner: str = "EgressIP", **columns) -> Row:
        ids = {
            **object_ids(self._view, owner, {"name": name, "priority": str(priority)}),
            **self._view.external_ids(),
        }
        values = {
            "priority": priority,
            "match": match,
            "nexthops": set(),
            "options": {},
            "external_ids": ids,
            **columns,
        }
        key = f"{on} {priority} {match}"
        return Row("Logical_Router_Policy", key, values, self._view.name, Parent(ROUTER, on, "policies"))

    def _replies(self, local: list[Leaving]) -> list[Row]:
        """Replies of connections of external hosts return by the node that these came in on."""
        view = self._view
        on = view.workload_switch
        rows = []
        for version, (owner_type, name, _by_service) in product(view.network["families"], _served_sets(local)):
            served = address_set_name(view, owner_type, name, version)
            target = f"ip{version}.dst"
            near = [f"{target} != {one}" for one in view.network["subnets"] if family(one) == version]
            own = [plain(one) for one in view.join_interfaces() if family(one) == version and self._on_switch]
            for join in (one for one in view.network["join_subnets"] if family(one) == version):
                # Before the transit router, policies come after the translation of the gateway router's own address.
                near += [f"({target} != {join} || {target} == {one})" for one in own] or [f"{target} != {join}"]
            beyond = "".join(f" && {one}" for one in near)
            match = f"ip{version}.src == ${served} && ct.trk && ct.rpl{beyond}"
            columns = {
                "direction": "from-lport",
                "priority": REPLY_PRIORITY,
                "match": match,
                "action": {"mark": REPLY_MARK},
                "external_ids": object_ids(view, owner_type, {"name": "ReplyMark", "ip-family": f"v{version}"}),
            }
            rows.append(
                Row("QoS", f"{on} {REPLY_PRIORITY} {match}", columns, view.name, Parent(SWITCH, on, "qos_rules"))
            )
        return rows

    def _reroute(self, one: Leaving) -> list[Row]:
        """Packets of a workload leave by the nodes that hold the addresses."""
        version = family(one.address)
        own = self._view.node
        here = self._on_switch and bool(one.held_by(own))
        by_nic = one.held_on_nics(own)
        holders = {node for held, node in one.holders if (not here or node == own) and held not in by_nic}
        hops = {hop for node in holders for hop in self._next_hops(node, version)}
        if self._is_translated_by_host(one) and self._leaves_by_host(one, hops):
            hops = set(self._management(version))
        options = {"pkt_mark": str(one.mark)} if here else {}
        if by_nic:
            # Marked only where none of the packets goes through a tunnel, unlike in ovn-kubernetes.
            options = {} if hops else {"pkt_mark": str(OTHER_NIC_MARK)}
            hops |= set(self._management(version))
        return self._rerouted(self._router, f"ip{version}.src == {one.address}", one, hops, options)

    def _leaves_by_host(self, one: Leaving, hops: set[str]) -> bool:
        """Return whether this host translates; where the address moves, for workloads of other hosts only."""
        own = self._view.node
        return bool(one.held_by(own) or (one.translated_to(own) and not (one.local and hops)))

    def _leave_by_nic(self, one: Leaving) -> list[Row]:
        """Packets of a workload of another node go to the host, which sends them through the NIC with the address."""
        version, options = family(one.address), {"pkt_mark": str(OTHER_NIC_MARK)}
        match = f"ip{version}.src == {one.address}"
        return self._rerouted(self._router, match, one, set(self._management(version)), options)

    def _management(self, version: int) -> list[str]:
        return [one for one in self._view.management_addresses() if family(one) == version]

    def _next_hops(self, node: str, version: int) -> list[str]:
        """Return the address, if any, by which this router reaches the gateway router of a node."""
        view = self._view
        here = node == view.node
        if view.network["topology"] == "Layer3":
            found = view.join_interfaces() if here else view.transit_interfaces(node)
        elif self._on_switch:
            hop = view.provider.next_hop(version)
            found = ([hop] if hop else []) if here else view.join_interfaces(node)
        elif has_transit_router(view, node):
            found = [pair[1] for pair in view.transit_pairs(node)]
        else:
            found = view.join_interfaces(node)
        return [plain(one) for one in found if family(one) == version]

    def _leave(self, one: Leaving) -> list[Row]:
        """What the gateway router of a holder does with the packets of a workload of any node."""
        view, version = self._view, family(one.address)
        if view.is_default:
            return [self._translation(one, external) for external in one.translated_to(view.node)]
        match, options = f"ip{version}.src == {one.address} && pkt.mark == 0", {"pkt_mark": str(one.mark)}
        outward = set(self._next_hops(view.node, version))
        if self._on_switch:
            return [] if one.local else self._rerouted(self._gateway, match, one, outward, options)
        rows = [
            self._policy(self._gateway, MARK_PRIORITY, match, one.name, _owner(one), action="allow", options=options)
        ]
        if view.network["topology"] == "Layer2" and is_open(view) and not one.local:
            # From a node without a transit router it arrives over the switch, and not by the gateway router's port.
            arrived = f'inport == "trtos-{layer2_switch(view.name)}-upgrade" && ip{version}.src == {one.address}'
            rows += self._rerouted(self._router, arrived, one, outward, {})
        return rows

    def _rerouted(self, on: str, match: str, one: Leaving, hops: set[str], options: dict) -> list[Row]:
        """Return the policy that sends packets to next hops; none where there is no next hop."""
        columns = {"action": "reroute", "nexthops": hops, "options": options}
        priority = SERVICE_PRIORITY if one.by_service else REROUTE_PRIORITY
        return [self._policy(on, priority, match, one.name, _owner(one), **columns)] if hops else []

    def _translation(self, one: Leaving, external: str) -> Row:
        view = self._view
        columns = {
            "type": "snat",
            "logical_ip": one.address,
            "external_ip": external,
            "logical_port": management_port(view.name, view.node),
            "external_port_range": view.translated_ports,
            "options": {"stateless": "false"},
            "external_ids": object_ids(view, "EgressIP", {"name": one.name, "ip": one.address}),
        }
        key = f"{self._gateway} snat {one.address} {external}"
        return Row("NAT", key, columns, view.name, Parent(ROUTER, self._gateway, "nat"))

    def _catch_all(self) -> list[Row]:
        """On Layer3, what comes from other nodes goes on to the gateway router, whatever the gateway mode.

        A router looks for a route first, and drops packets without one before policies lead them elsewhere.
        """
        view = self._view
        if view.network["topology"] != "Layer3":
            return []
        return [
            route(view, self._router, subnet, hop, source=True)
            for subnet in view.network["subnets"]
            for hop in view.join_interfaces()
            if family(hop) == family(subnet)
        ]


def _owner(one: Leaving) -> str:
    return "EgressService" if one.by_service else "EgressIP"


def _served_sets(local: list[Leaving]) -> list[tuple[str, str, bool]]:
    """Return owner type and name of the sets of workloads that there are, and whether these have EgressServices."""
    kinds = {one.by_service for one in local}
    known = ((SERVED_SET, _SERVED, False), (STEERED_SET, _STEERED, True))
    return [one for one in known if one[2] in kinds]
