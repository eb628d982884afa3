# SPDX-License-Identifier: Apache-2.0
"""A host's share of the plan: which rows go to which database, in which order, and what is waited for."""

from __future__ import annotations

import time

from .apply import kernel
from .apply.change import Outcome
from .apply.netlink import planned_endpoints, reconcile_endpoints, reconcile_underlay
from .apply.ovsdb import reconcile
from .apply.ovsdb_absent import planned
from .apply.ovsdb_values import Scope
from .apply.ovsdb_wait import caught_up, synchronise
from .naming import INTEGRATION_BRIDGE
from .observe import wait_for_ports
from .render import northbound, render_endpoints, render_northbound, render_southbound, southbound, vswitch
from .render.vswitch import SOUTHBOUND_SOCKET, UNDERLAY_BRIDGE, render_integration_bridge, render_workload_ports
from .row import Row
from .runner import NORTHBOUND, SOUTHBOUND, VSWITCH, Failure, connected, known_node, load_plan

VSWITCH_DATABASE = "Open_vSwitch"
SYSTEM_ID_TIMEOUT = 20.0


def rows_to(client, database: str, rows: list[Row], owner: str, tables: tuple[str, ...], *, write: bool) -> Outcome:
    """Reconcile rows with a database; without a database every row counts as missing."""
    if client is None:
        return planned(database, rows)
    return reconcile(client, database, rows, owner=owner, scope=Scope(tables=frozenset(tables)), write=write)


def apply_topology(module) -> Outcome:
    """Remote chassis first: northd makes a port remote only if its chassis is known to be (OVN, `northd.c`)."""
    plan = load_plan(module)
    node = known_node(plan, module.params["node"])
    owner, write = f"{plan['deployment']}:topology", not module.check_mode
    timeout = module.params["wait_timeout"]
    with connected(module, SOUTHBOUND) as client:
        rows = render_southbound(plan, node)
        outcome = rows_to(client, "OVN_Southbound", rows, owner, southbound.TABLES, write=write)
    with connected(module, NORTHBOUND) as client:
        rows = render_northbound(plan, node)
        outcome += rows_to(client, "OVN_Northbound", rows, owner, northbound.TABLES, write=write)
        if write and timeout and (outcome.changed or not caught_up(client)):
            synchronise(client, timeout)
    return outcome


def apply_workloads(module) -> Outcome:
    """Namespaces and links first, then their ports on the bridge, then wait until OVN has them up."""
    plan = load_plan(module)
    node = known_node(plan, module.params["node"])
    owner, write = f"{plan['deployment']}:workload", not module.check_mode
    endpoints = render_endpoints(plan, node)
    if kernel.PYROUTE2_IMPORT_ERROR is None:
        with connected(module, VSWITCH) as client:
            userspace = uses_userspace(client)
        outcome = reconcile_endpoints(endpoints, owner=owner, userspace=userspace, write=write)
    elif module.check_mode:
        outcome = planned_endpoints(endpoints)
    else:
        raise Failure("pyroute2 is missing on this host; run playbooks/install.yml")
    with connected(module, VSWITCH) as client:
        rows = render_workload_ports(plan, node)
        if client is not None and integration_bridge(client) is None:
            if write:
                raise Failure(f"there is no bridge {INTEGRATION_BRIDGE}; run playbooks/install.yml on this host")
            client = None
        outcome += rows_to(client, VSWITCH_DATABASE, rows, owner, vswitch.TABLES, write=write)
    if write and module.params["wait_timeout"]:
        _wait_for_workloads(module, plan, node)
    return outcome


def _wait_for_workloads(module, plan: dict, node: str) -> None:
    ports = [
        interface["port"]
        for workload in plan["workloads"].values()
        if workload["node"] == node
        for interface in workload["interfaces"]
    ]
    timeout = module.params["wait_timeout"]
    with connected(module, NORTHBOUND) as client:
        missing = wait_for_ports(client, ports, timeout)
    if missing:
        raise Failure(
            f"{len(missing)} of {len(ports)} ports are not up after {timeout} s: {', '.join(missing[:10])}; "
            "see the log of ovn-controller on this host"
        )


def integration_bridge(client) -> dict | None:
    """Return the datapath of the integration bridge, or None when there is no such bridge."""
    where = [["name", "==", INTEGRATION_BRIDGE]]
    select = {"op": "select", "table": "Bridge", "where": where, "columns": ["datapath_type"]}
    return next(iter(client.transact(VSWITCH_DATABASE, [select])[0]["rows"]), None)


def uses_userspace(client) -> bool:
    """Tell whether the integration bridge forwards packets in userspace."""
    bridge = integration_bridge(client) if client else None
    return (bridge["datapath_type"] if bridge else kernel.datapath_type()) == "netdev"


def apply_chassis(module) -> tuple[Outcome, dict]:
    """Bring Open vSwitch to what ovn-controller needs; returns the outcome and the host's chassis and datapath."""
    params, write = module.params, not module.check_mode
    datapath = kernel.datapath_type() if params["datapath"] == "auto" else params["datapath"]
    host = {"name": params["name"], "encapsulation": params["encapsulation"], "datapath": datapath}
    userspace = datapath == "netdev"
    ready = kernel.PYROUTE2_IMPORT_ERROR is None
    if userspace:
        if not params["underlay_interface"] or not params["underlay_addresses"]:
            raise Failure(
                "this kernel has no Open vSwitch, and its userspace datapath takes the underlay's network card over: "
                "give underlay_interface and underlay_addresses, or install a kernel with the openvswitch module"
            )
        if not ready and write:
            raise Failure("pyroute2 is missing on this host; install python3-pyroute2")
        host["interface"] = params["underlay_interface"]
        host["mac"] = _mac(params["underlay_interface"]) if ready else "(known once pyroute2 is installed)"
    with connected(module, VSWITCH) as client:
        if client:
            _refuse_foreign(client)
        rows = render_integration_bridge(host)
        outcome = rows_to(client, VSWITCH_DATABASE, rows, params["owner"], vswitch.TABLES, write=write)
        chassis = _system_id(client) if client else f"(chassis of {params['name']}, known once Open vSwitch runs)"
    if userspace and ready:
        outcome += _underlay(params, write=write)
    return outcome, {"chassis": chassis, "datapath": datapath}


def _mac(interface: str) -> str:
    links = kernel.read_links(None)
    if interface not in links:
        raise Failure(f"there is no network card {interface}; it has {', '.join(sorted(links))}")
    return links[interface]["mac"]


def _underlay(params: dict, *, write: bool) -> Outcome:
    if write:
        deadline = time.monotonic() + SYSTEM_ID_TIMEOUT
        while UNDERLAY_BRIDGE not in kernel.read_links(None):
            if time.monotonic() > deadline:
                raise Failure(f"ovs-vswitchd did not make {UNDERLAY_BRIDGE}; see its log on this host")
            time.sleep(0.1)
    return reconcile_underlay(UNDERLAY_BRIDGE, params["underlay_interface"], params["underlay_addresses"], write=write)


def _identifiers(client) -> dict:
    select = {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["external_ids"]}
    rows = client.transact(VSWITCH_DATABASE, [select])[0]["rows"]
    return dict(rows[0]["external_ids"][1]) if rows else {}


def _refuse_foreign(client) -> None:
    remote = _identifiers(client).get("ovn-remote", SOUTHBOUND_SOCKET)
    if remote != SOUTHBOUND_SOCKET:
        raise Failure(
            f"this host belongs to another OVN: external_ids:ovn-remote is {remote}; "
            "take it out of that one first (ovs-vsctl remove Open_vSwitch . external_ids ovn-remote)"
        )


def _system_id(client) -> str:
    identifiers = _identifiers(client)
    if "system-id" not in identifiers:
        raise Failure("Open vSwitch has no system-id; restart openvswitch-switch, which sets it")
    return identifiers["system-id"]
