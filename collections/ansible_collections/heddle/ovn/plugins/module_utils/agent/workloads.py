# SPDX-License-Identifier: Apache-2.0
"""Applies a node's workloads: links, ports on the integration bridge, and the wait until OVN has their flows."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import partial

from ..bird.reconcile import reconcile_bird
from ..common.change import Outcome
from ..common.databases import OPEN_VSWITCH, SOUTHBOUND_REMOTE, VSWITCH_REMOTE
from ..common.errors import EngineError
from ..common.naming import ADDRESS_POOLS, INTEGRATION_BRIDGE
from ..common.plan_format import has_ovn
from ..netlink import kernel
from ..netlink.kernel_modules import datapath_type
from ..netlink.reception import stale_links
from ..netlink.routed_workloads import planned_routed_workloads, reconcile_routed_workloads, uplink_mtu
from ..netlink.workload_links import planned_endpoints, reconcile_endpoints
from ..ovsdb.control_socket import VSWITCHD
from ..ovsdb.patience import processor_seconds
from ..ovsdb.ports import ports_not_up, wait_for_flows, wait_for_ports
from ..ovsdb.stale_ports import close_ports, find_ports, without_reopened
from ..ovsdb.vswitchd import await_reconfiguration
from ..qemu.reconcile import end_vms, reconcile_vms
from ..qemu.taps import reconcile_taps
from ..render.coil.bird_configuration import render_bird
from ..render.coil.workloads import render_routed_endpoints, render_routed_workloads
from ..render.common.node_network import is_mesh
from ..render.host import vswitch
from ..render.host.mesh import mesh_networks, render_mesh_bridge
from ..render.host.netns import render_endpoints
from ..render.host.qemu import render_virtual_machines
from ..render.host.vswitch import render_workload_ports
from ..types.netns_workload import Endpoint
from ..types.ovsdb_row import Row
from ..types.routed_workloads import RULES
from .context import NodeContext
from .egress_nat import apply_egress
from .module_runner import UserError, connected, known_node
from .topology import apply_rows


def apply_workloads(context: NodeContext, plan: dict, refused: Set[str] = frozenset()) -> Outcome:
    """Create namespaces and links, then their ports on the bridge, then wait until OVN has them up.

    Ports of `refused` networks, which this host does not have, are not waited for.
    """
    node = known_node(plan, context.node)
    owner, write = f"{plan['deployment']}:workload", context.write
    endpoints, vms = node_endpoints(plan, node), render_virtual_machines(plan, node)
    outcome, closed = end_vms(vms, owner=owner, write=write), Outcome()

    def close(made: Mapping[str, str], stale: Mapping[str, str]) -> Outcome:
        nonlocal closed
        found = close_stale_ports(made, stale, write=write)
        closed += found
        return found

    if kernel.PYROUTE2_IMPORT_ERROR is None:
        userspace = _uses_userspace(plan, write=write)
        outcome += reconcile_endpoints(endpoints, owner=owner, userspace=userspace, write=write, close_ports=close)
        outcome += reconcile_routed_workloads(render_routed_workloads(plan, node), write=write)
        outcome += apply_egress(plan, node, owner, write=write)
        outcome += reconcile_taps(
            vms, owner=tap_owner(plan), userspace=userspace, write=write, close_ports=close
        )  # fmt: skip
    elif not write:
        outcome += planned_endpoints(endpoints, owner=owner) + planned_routed_workloads(
            render_routed_workloads(plan, node)
        )
    else:
        raise UserError("pyroute2 is missing on this host; run heddle.ovn.install")
    if has_ovn(plan):
        outcome += without_reopened(_switch_ports(plan, node, owner, write=write), closed)
    outcome += reconcile_vms(vms, owner=owner, write=write)
    # Here, since BIRD may be slow to apply its configuration, and a user's part of that may have mistakes.
    if kernel.PYROUTE2_IMPORT_ERROR is None:
        outcome += _apply_bird(plan, node, write=write)
    if write and context.timeout and has_ovn(plan):
        _wait_for_workloads(plan, node, context.timeout, refused | {network for network, _reason in outcome.refused})
    if write and outcome.changed:
        # While ovs-vswitchd adds links, it writes back flags that it read before: one of them may be down again.
        reconcile_endpoints(endpoints, owner=owner, userspace=userspace, write=True)
    return outcome


def close_stale_ports(made: Mapping[str, str], stale: Mapping[str, str], *, write: bool) -> Outcome:
    """Remove the ports of links that are `made`, and of those on which ovs-vswitchd receives nothing.

    Both by name with their networks. Nothing while ovs-vswitchd does not run: it opens all of them when it starts.
    """
    if processor_seconds(VSWITCHD) is None:
        return Outcome()
    with connected(VSWITCH_REMOTE, write=write) as client:
        if client is None:
            return Outcome()
        ports = find_ports(client, made.keys() | stale.keys())
        still = {name: network for name, network in stale.items() if name in ports}
        if still and write:
            # It may have been started just now, and is not done with them.
            await_reconfiguration(client)
            still = stale_links(still, kernel.read_links(None))
        return close_ports(client, ports, {**made, **still}, write=write)


def _uses_userspace(plan: dict, *, write: bool) -> bool:
    if not has_ovn(plan):
        return False
    with connected(VSWITCH_REMOTE, write=write) as client:
        return uses_userspace(client)


def _switch_ports(plan: dict, node: str, owner: str, *, write: bool) -> Outcome:
    with connected(VSWITCH_REMOTE, write=write) as client:
        rows = render_switch_rows(client, plan, node)
        if client is not None and integration_bridge(client) is None:
            if write:
                raise UserError(f"there is no bridge {INTEGRATION_BRIDGE}; run heddle.ovn.install on this host")
            client = None
        return apply_rows(client, OPEN_VSWITCH, rows, owner, vswitch.TABLES, write=write)


def render_switch_rows(client, plan: dict, node: str) -> list[Row]:
    """Return the ports of a node's workloads, and the bridge of the mesh where the plan has one."""
    datapath = "netdev" if mesh_networks(plan) and uses_userspace(client) else "system"
    return [*render_workload_ports(plan, node), *render_mesh_bridge(plan, node, datapath)]


def tap_owner(plan: dict) -> str:
    """Return the owner of the tap devices of virtual machines."""
    return f"{plan['deployment']}:vm"


def compared_virtual_machines(plan: dict, node: str, *, userspace: bool) -> Outcome:
    """Return what applying the plan would change of virtual machines and their tap devices."""
    owner, vms = f"{plan['deployment']}:workload", render_virtual_machines(plan, node)
    outcome = end_vms(vms, owner=owner, write=False)
    outcome += reconcile_taps(
        vms, owner=tap_owner(plan), userspace=userspace, write=False,
        close_ports=partial(close_stale_ports, write=False),
    )  # fmt: skip
    return outcome + reconcile_vms(vms, owner=owner, write=False)


def node_endpoints(plan: dict, node: str) -> list[Endpoint]:
    """Return the network namespaces of a node's workloads, on OVN's networks and on address pools."""
    routed = (
        render_routed_endpoints(plan, node, uplink_mtu()) if "coil" in plan and not kernel.PYROUTE2_IMPORT_ERROR else []
    )
    return [*render_endpoints(plan, node), *routed]


def apply_routed_workloads(context: NodeContext, plan: dict) -> Outcome:
    """Set addresses, routes and rules for the workloads on address pools, whose links are there already, and BIRD."""
    node = known_node(plan, context.node)
    outcome = reconcile_routed_workloads(render_routed_workloads(plan, node), write=context.write)
    return outcome + _apply_bird(plan, node, write=context.write)


def _apply_bird(plan: dict, node: str, *, write: bool) -> Outcome:
    """Bring BIRD to its configuration. A failure concerns address pools, and nothing else on the host."""
    try:
        return reconcile_bird(render_bird(plan, node), write=write)
    except (EngineError, OSError) as error:
        if not write:
            raise
        return Outcome(refused=((ADDRESS_POOLS, str(error)),))


def routed_size(plan: dict, node: str) -> int:
    """Return the number of routes and rules for the workloads on address pools."""
    desired = render_routed_workloads(plan, node)
    rules = 2 * len(RULES) if desired.is_used else 0
    return rules + sum(len(link.addresses) for link in desired.links) + 2 * len(desired.blocks)


def _ports(plan: dict, node: str, where: str, refused: Set[str]) -> list[str]:
    return [
        interface["port"]
        for workload in plan["workloads"].values()
        if workload.get(where) == node
        for interface in workload["interfaces"]
        if interface["network"] not in refused and not is_mesh(plan["networks"][interface["network"]])
    ]


def are_up(plan: dict, node: str) -> bool:
    """Return whether OVN has all ports of the node's workloads up, and none is to arrive."""
    if not has_ovn(plan):
        return True
    if _ports(plan, node, "moving_to", frozenset()):
        return False
    with connected(VSWITCH_REMOTE, write=False) as switch, connected(SOUTHBOUND_REMOTE, write=False) as southbound:
        if switch is None or southbound is None:
            return False
        return not ports_not_up(switch, southbound, _ports(plan, node, "node", frozenset()))


def _wait_for_workloads(plan: dict, node: str, timeout: int, refused: Set[str]) -> None:
    ports = _ports(plan, node, "node", refused)
    arriving = _ports(plan, node, "moving_to", refused)
    with (
        connected(VSWITCH_REMOTE, write=True) as switch,
        # The server is silent while it commits what northd made of many networks.
        connected(SOUTHBOUND_REMOTE, write=True, timeout=max(60.0, timeout)) as southbound,
    ):
        if arriving:
            wait_for_flows(switch, arriving, timeout)
        missing = wait_for_ports(switch, southbound, ports, timeout)
    if missing:
        raise UserError(
            f"{len(missing)} of {len(ports)} ports are not up after {timeout} s: {', '.join(missing[:10])}; "
            "see the log of ovn-controller on this host"
        )


def integration_bridge(client) -> dict | None:
    """Return the datapath of the integration bridge, or None when there is no such bridge."""
    where = [["name", "==", INTEGRATION_BRIDGE]]
    select = {"op": "select", "table": "Bridge", "where": where, "columns": ["datapath_type"]}
    return next(iter(client.transact(OPEN_VSWITCH, [select])[0]["rows"]), None)


def uses_userspace(client) -> bool:
    """Return whether the integration bridge forwards packets in userspace."""
    bridge = integration_bridge(client) if client else None
    return (bridge["datapath_type"] if bridge else datapath_type()) == "netdev"
