# SPDX-License-Identifier: Apache-2.0
"""Applies the node's part of the gateways: flows of the provider bridge, and kernel state."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType

from ..common.addressing import host_route
from ..common.change import Outcome
from ..common.databases import OPEN_VSWITCH, VSWITCH_REMOTE
from ..common.errors import EngineError, OpenFlowError
from ..common.naming import CONTROLLED_BRIDGES, DEFAULT_NETWORK
from ..common.plan_format import has_ovn
from ..netlink import kernel
from ..netlink.address_changes import add_addresses, remove_addresses
from ..netlink.device import read_device_mac
from ..netlink.reconcile import planned_host_network, reconcile_host_network
from ..openflow.reconcile import planned_flows, reconcile_flows, write_changed_flows
from ..openflow.switch import Switch
from ..openflow.trace import SwitchTrace, program_identity, replies_equal
from ..ovsdb.protocol.client import OvsdbError
from ..ovsdb.vswitchd import Reconfiguration
from ..render.common.egress_ips import held_nics
from ..render.common.provider import provider_of
from ..render.gateway.bridge import render_flood_ports, render_static_macs
from ..render.gateway.bridge_flows import render_bridge_flows
from ..render.gateway.egress_flows import render_egress_flows
from ..render.host.egress_nics import without_nics
from ..render.host.firewall import render_firewall
from ..render.host.links_and_routes import render_held_addresses, render_host_network, render_management_ports
from ..render.host.mesh import mesh_networks, render_mesh_gateways
from ..render.host.vswitch import TABLES
from ..render.rehearsal import plan_of_networks
from ..types.openflow_flow import OWN_COOKIES
from ..types.ovsdb_row import Row
from . import announcements
from .context import NodeContext
from .host_firewall import apply_firewall
from .internal_ports import await_internal_ports, internal_ports
from .module_runner import UserError, connected, known_node
from .nic_forwarding import nic_forwarding
from .topology import apply_rows
from .workloads import integration_bridge, uses_userspace

# Holds the digest of the plan that was last applied to the gateway; lost on reboot, like flows and routes.
APPLIED_FILE = "/run/heddle/applied"
# Name of the record of their comparison, and how many seconds the database may be silent.
FLOWS, _DATABASE_TIMEOUT = "flows", 60.0


def apply_gateway(context: NodeContext, plan: dict) -> Outcome:
    """Apply the node's part of all gateways; a host without a provider network has none."""
    node, write = known_node(plan, context.node), context.write
    outcome = Outcome()
    if has_ovn(plan):
        ports, absent = _management_ports(plan, node, _owner(plan), write=write)
        outcome += ports + _host_network(plan, node, _owner(plan), write=write, absent=absent)
        outcome += _recorded_flows(context, plan)
        outcome += apply_firewall(plan, node, write=write)
        if write:
            nic_forwarding(plan, node).end()
    if write:
        outcome += announcements.announce_noted(plan, node)
        note_applied(plan)
    return outcome


def add_egress_flows(context: NodeContext, former: dict, plan: dict) -> Outcome:
    """Write the flows of egress addresses that `former`, the plan that the host has, lacks; no others.

    Rows that lead packets to them come afterwards. What Open vSwitch refuses here is left to `apply_gateway`, which
    says what is wrong.
    """
    if not context.write or not former or context.node not in former["nodes"]:
        return Outcome()
    try:
        return _egress_flows(former, plan, context.node, removing=False)
    except (EngineError, OvsdbError):
        return Outcome()


def claim_addresses(context: NodeContext, former: dict, plan: dict, addresses: Collection[str]) -> Outcome:
    """Set addresses that the host has prepared for, announce them, and let packets leave with them.

    All else of the plan is applied afterwards; `former` is the one that the host has. What the kernel or Open vSwitch
    refuses here is left to that, which says what is wrong.
    """
    if not addresses or not context.write or kernel.PYROUTE2_IMPORT_ERROR is not None:
        return Outcome()
    prefixes, node = {host_route(address) for address in addresses}, context.node
    outcome = Outcome()
    try:
        held = [one for one in render_held_addresses(plan, node) if one.address in prefixes]
        outcome += add_addresses(held, planned=partial(announcements.note_new, plan, node))
        outcome += announcements.announce(plan, node, announcements.created(outcome.changes))
        outcome += _egress_flows(former, plan, node, removing=True)
        if not held_nics(plan, node).keys().isdisjoint(addresses):
            outcome += _host_network(plan, node, _owner(plan), write=True) + apply_firewall(plan, node, write=True)
    except (EngineError, OvsdbError):
        return outcome
    return outcome


def release_addresses(context: NodeContext, former: dict, plan: dict) -> Outcome:
    """Give up the addresses that a host has by the plan `former`, and not by this one.

    First nothing leaves with them any more; last go the addresses themselves, so that others may have them.
    """
    node, write = context.node, context.write
    kept = set(render_held_addresses(plan, node))
    lost = [one for one in render_held_addresses(former, node) if one not in kept]
    if not write or kernel.PYROUTE2_IMPORT_ERROR is not None:
        return _host_network(plan, node, _owner(plan), write=write)
    outcome, by_nics = (
        _egress_flows(former, plan, node, removing=False),
        held_nics(former, node) != held_nics(plan, node),
    )
    if by_nics:
        # Before the rules go that keep a NIC from forwarding anything else.
        nic_forwarding(plan, node).stop()
        outcome += apply_firewall(plan, node, write=write)
    outcome += remove_addresses(lost)
    if by_nics:
        outcome += _host_network(plan, node, _owner(plan), write=write)
    return outcome


def note_applied(plan: dict) -> None:
    """Note that all of the gateway is as a plan."""
    os.makedirs(os.path.dirname(APPLIED_FILE), mode=0o755, exist_ok=True)
    with open(APPLIED_FILE, "w", encoding="utf-8") as text:
        text.write(plan["digest"])


def _egress_flows(former: dict, plan: dict, node: str, *, removing: bool) -> Outcome:
    """Write the flows of egress addresses that differ between two plans, and wait until packets follow them."""
    before, after = render_egress_flows(former, node), render_egress_flows(plan, node)
    if before == after:
        return Outcome()
    with connected(VSWITCH_REMOTE, write=True) as client:
        switch = Switch(client)
        outcome = write_changed_flows(switch, before, after, removing=removing)
        if outcome.changed:
            switch.wait_for_datapath(after)
        return outcome


def _owner(plan: dict) -> str:
    return f"{plan['deployment']}:gateway"


def _management_ports(plan: dict, node: str, owner: str, *, write: bool) -> tuple[Outcome, dict[str, str]]:
    """Apply the host's own ports; return also why links of some of them are missing, by name."""
    with connected(VSWITCH_REMOTE, write=write) as client:
        if client is not None and integration_bridge(client) is None:
            if write:
                raise UserError("there is no integration bridge; run heddle.ovn.install on this host")
            client = None
        rows, change = render_gateway_rows(client, plan, node), Reconfiguration()
        outcome = apply_rows(client, OPEN_VSWITCH, rows, owner, TABLES, write=write, closing=change)
        if not write or kernel.PYROUTE2_IMPORT_ERROR is not None:
            return outcome, {}
        rejected = {network for network, _reason in outcome.refused}
        made = internal_ports([row for row in rows if row.network not in rejected])
        return outcome, await_internal_ports(client, made, change.number)


def render_gateway_rows(client, plan: dict, node: str) -> list[Row]:
    """Return the ports of the host itself: on the integration bridge, and on that of the mesh."""
    datapath = "netdev" if mesh_networks(plan) and uses_userspace(client) else "system"
    return [*render_management_ports(plan, node), *render_mesh_gateways(plan, node, datapath)]


def _host_network(
    plan: dict, node: str, owner: str, *, write: bool, absent: Mapping[str, str] = MappingProxyType({})
) -> Outcome:
    desired = render_host_network(plan, node)
    if kernel.PYROUTE2_IMPORT_ERROR is None:
        missing = {nic: address for address, nic in held_nics(plan, node).items() if read_device_mac(nic) is None}
        notes = [
            f"egress address {address}: this host has no NIC {nic}; run heddle.ovn.networks, which assigns it anew"
            for nic, address in missing.items()
        ]
        outcome, forwarding = Outcome(), nic_forwarding(plan, node)
        if write:
            forwarding.begin()
        if write and forwarding.begins:
            # Its notes come with the whole of it, which is applied afterwards.
            outcome += Outcome(apply_firewall(plan, node, write=write).changes)
        desired = forwarding.wanted(without_nics(desired, {*missing, *forwarding.missing}))
        planned = partial(announcements.note_new, plan, node)
        outcome += reconcile_host_network(desired, owner=owner, write=write, absent=absent, planned=planned)
        return outcome + Outcome(notes=tuple(notes))
    if write:
        raise UserError("pyroute2 is missing on this host; run heddle.ovn.install")
    return planned_host_network(desired)


def _recorded_flows(context: NodeContext, plan: dict) -> Outcome:
    """Apply the flows, unless a record shows that this changes nothing."""
    record, node = context.record, context.node
    if record is None:
        return _flows(plan, node, write=context.write)
    programs = program_identity()
    key = record.key(plan["digest"], node, programs)

    def rendered() -> str:
        """Return the key of what the flows are compared with: most plans differ in other things."""
        parts = (render_bridge_flows(plan, node), render_flood_ports(plan, node), render_static_macs(plan, node))
        return record.key(repr(provider_of(plan["nodes"][node])), repr(parts), programs)

    if record.holds(FLOWS, key, lambda read: replies_equal(VSWITCH_REMOTE, read, _DATABASE_TIMEOUT), rendered):
        return Outcome()
    trace = SwitchTrace()
    outcome = _flows(plan, node, write=context.write, trace=trace)
    if not outcome.changed and not outcome.refused:
        record.keep(FLOWS, key, trace.read(), rendered())
    return outcome


def _flows(plan: dict, node: str, *, write: bool, trace: SwitchTrace | None = None) -> Outcome:
    """Apply the flows; a network whose flows or ports are rejected is left out, with its ports in common flows."""
    refused: dict[str, str] = {}
    while True:
        try:
            kept = plan_of_networks(plan, plan["networks"].keys() - refused.keys()) if refused else plan
            return _flows_of(kept, node, write=write, trace=trace) + Outcome(refused=tuple(refused.items()))
        except OpenFlowError as error:
            if not write or not error.networks or error.networks <= refused.keys() | {DEFAULT_NETWORK}:
                raise
            refused |= dict.fromkeys(sorted(error.networks), str(error))


def _flows_of(plan: dict, node: str, *, write: bool, trace: SwitchTrace | None = None) -> Outcome:
    provider = provider_of(plan["nodes"][node])
    flows = render_bridge_flows(plan, node)
    flood_ports, static_macs = render_flood_ports(plan, node), render_static_macs(plan, node)
    with connected(VSWITCH_REMOTE, write=write) as client:
        if client is None:
            return planned_flows(flows, flood_ports, static_macs)
        switch = Switch(client, trace.run) if trace else Switch(client)
        bridges = {provider.bridge} if provider else set()
        bridges |= switch.bridges_with(OWN_COOKIES, without={*CONTROLLED_BRIDGES, *bridges})
        outcome = reconcile_flows(switch, sorted(bridges), flows, flood_ports, static_macs, write=write)
        if trace:
            trace.note_ports(switch, bridges)
        return outcome


def applied_digest() -> str:
    """Return the digest of the plan last applied to the gateway since boot, "" when there is none."""
    try:
        with open(APPLIED_FILE, encoding="utf-8", errors="replace") as text:
            return text.read()
    except OSError:
        return ""


def last_applied() -> tuple[str, float] | None:
    """Return that digest and when it was applied, in seconds since the epoch; None when there is none."""
    try:
        return applied_digest(), os.stat(APPLIED_FILE).st_mtime
    except OSError:
        return None


def gateway_size(plan: dict, node: str) -> int:
    """Return the number of objects in the node's part of the gateways."""
    if not has_ovn(plan):
        return 0
    network = render_host_network(plan, node)
    kinds = (network.links, network.vrfs, network.addresses, network.routes, network.rules, network.neighbours)
    firewall = render_firewall(plan, node)
    return (
        len(render_management_ports(plan, node) + render_mesh_gateways(plan, node, "system"))
        + len(firewall.chains)
        + len(firewall.sets)
        + sum(map(len, kinds))
        + len(network.sysctls)
        + len(render_bridge_flows(plan, node))
    )
