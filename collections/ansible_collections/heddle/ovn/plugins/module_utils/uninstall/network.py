# SPDX-License-Identifier: Apache-2.0
"""Removes Heddle's networks from a host: workloads, gateways, OVN rows, bridges, and the uplinks' way through them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from ..agent.module_runner import UserError
from ..agent.nic_forwarding import made_forward
from ..agent.topology import apply_rows
from ..bird.reconcile import reconcile_bird
from ..common.change import Change, Outcome
from ..common.databases import (
    NORTHBOUND_REMOTE,
    OPEN_VSWITCH,
    OVN_NORTHBOUND,
    OVN_SOUTHBOUND,
    SOUTHBOUND_REMOTE,
    VSWITCH_REMOTE,
)
from ..common.errors import NetlinkError
from ..common.naming import CONTROLLED_BRIDGES
from ..common.polling import attempts
from ..netlink import kernel
from ..netlink.device import read_device
from ..netlink.reconcile import reconcile_host_network
from ..netlink.routed_workloads import reconcile_routed_workloads
from ..netlink.uplink_migration import move_device
from ..netlink.workload_links import reconcile_endpoints
from ..nftables.reconcile import reconcile_firewall
from ..openflow.reconcile import reconcile_flows
from ..openflow.switch import Switch
from ..ovsdb.protocol.client import Client, Unreachable
from ..ovsdb.values import map_pairs, uuid_list
from ..qemu.reconcile import end_vms
from ..qemu.taps import reconcile_taps
from ..render import northbound, southbound
from ..render.host.nic_forwarding import forwarding_of
from ..render.host.vswitch import BRIDGE_UPLINK, TABLES, render_integration_bridge
from ..types.host_network import HostNetwork
from ..types.nftables_ruleset import TABLE, USERSPACE_TABLE, Firewall
from ..types.openflow_flow import OWN_COOKIES
from ..types.ovsdb_row import Keys, Row
from ..types.routed_workloads import RoutedWorkloads
from .record import Before

CHASSIS_OWNER = "heddle:chassis"
# The kind of changes of kernel settings.
SYSCTL = "sysctl"
_DEVICE_TIMEOUT = 30.0
_OWNER = "heddle/owner"
# ovn-controller's own ports: tunnels and patch ports (ovn-controller(8)).
_CONTROLLER_KEYS = {"ovn-chassis-id", "ovn-localnet-port", "ovn-l2gateway-port", "ovn-l3gateway-port"}


@contextlib.contextmanager
def reachable(remote: str, *, write: bool, needed: bool = False) -> Iterator[Client | None]:
    """Connect to a database; None where no server runs, which is an error if the database is `needed`."""
    try:
        client = Client(remote, 60.0, read_only=not write)
        client.__enter__()
    except Unreachable as error:
        if needed:
            raise UserError(
                f"{error}: the database was there before Heddle and has rows of Heddle's; start its server (systemctl "
                "start openvswitch-switch ovn-central) and run this playbook again"
            ) from error
        yield None
        return
    try:
        yield client
    finally:
        client.__exit__(None, None, None)


def remove_networks(deployments: Iterable[str], *, write: bool) -> Outcome:
    """Remove virtual machines, workloads and gateways of the deployments, with all that carries their marks."""
    # First, so that nothing is sent to workloads that are about to go.
    outcome = reconcile_bird(None, write=write)
    if kernel.PYROUTE2_IMPORT_ERROR is None:
        outcome += _without_foreign(reconcile_routed_workloads(RoutedWorkloads(), write=write))
    for deployment in deployments:
        owner = f"{deployment}:workload"
        outcome += end_vms([], owner=owner, write=write)
        if kernel.PYROUTE2_IMPORT_ERROR is None:
            outcome += reconcile_endpoints([], owner=owner, userspace=False, write=write)
            outcome += reconcile_taps([], owner=f"{deployment}:vm", userspace=False, write=write)
        with reachable(VSWITCH_REMOTE, write=write) as client:
            if client:
                outcome += apply_rows(client, OPEN_VSWITCH, [], owner, TABLES, write=write)
                outcome += apply_rows(client, OPEN_VSWITCH, [], f"{deployment}:gateway", TABLES, write=write)
        if kernel.PYROUTE2_IMPORT_ERROR is None:
            outcome += reconcile_host_network(HostNetwork(), owner=f"{deployment}:gateway", write=write)
    with reachable(VSWITCH_REMOTE, write=write) as client:
        if client:
            outcome += _remove_flows(client, write=write)
    forwarding = made_forward()
    # Before the rules go that keep these NICs from forwarding anything else.
    names = map(forwarding_of, forwarding.stop() if write else forwarding.ending)
    found = [Change("kernel", "update", SYSCTL, one, "", {"value": "1"}, {"value": "0"}) for one in names]
    outcome += Outcome(tuple(found))
    return _without_foreign(outcome + reconcile_firewall(Firewall(table=TABLE), write=write))


def _without_foreign(outcome: Outcome) -> Outcome:
    return Outcome(outcome.changes, notes=outcome.notes)


def _remove_flows(client: Client, *, write: bool) -> Outcome:
    """Remove Heddle's flows from bridges that stay; those of its own bridges go with them."""
    switch = Switch(client)
    own = set(_own_bridges(client))
    bridges = sorted(switch.bridges_with(OWN_COOKIES, without={*CONTROLLED_BRIDGES, *own}))
    return reconcile_flows(switch, bridges, [], write=write) if bridges else Outcome()


def remove_ovn_rows(deployments: Iterable[str], before: Before, *, write: bool) -> Outcome:
    """Remove rows from OVN's databases where these were there before; otherwise the files are removed as a whole.

    Without a record the databases count as another installation's.
    """
    outcome, paths = Outcome(), before.first("paths")
    for remote, database, file, tables in (
        (NORTHBOUND_REMOTE, OVN_NORTHBOUND, "/var/lib/ovn/ovnnb_db.db", northbound.TABLES),
        (SOUTHBOUND_REMOTE, OVN_SOUTHBOUND, "/var/lib/ovn/ovnsb_db.db", southbound.TABLES),
    ):
        if before and paths.get(file) is None:
            continue
        with reachable(remote, write=write) as client:
            for deployment in deployments if client else ():
                outcome += apply_rows(client, database, [], f"{deployment}:topology", tables, write=write)
    return outcome


def remove_bridges(before: Before, *, write: bool) -> Outcome:
    """Detach the uplinks, then remove Heddle's bridges and its settings of Open vSwitch.

    The host receives on an uplink before its addresses move there, and they are on the uplink before its bridge goes.
    """
    outcome = Outcome()
    with reachable(VSWITCH_REMOTE, write=write) as client:
        bridges = _own_bridges(client) if client else {}
        ready = kernel.PYROUTE2_IMPORT_ERROR is None
        if any(bridges.values()) and not ready:
            raise UserError("pyroute2 is missing on this host, and uplinks are attached; install python3-pyroute2")
        outcome += _without_foreign(reconcile_firewall(Firewall(table=USERSPACE_TABLE), write=write))
        if client is None:
            return outcome + _restore_interfaces(before, {}, write=write)
        for bridge, uplink in bridges.items():
            if uplink and read_device(bridge) and read_device(uplink):
                outcome += move_device(bridge, uplink, write=write)
        if bridges or _settings_remain(client, before):
            outcome += apply_rows(client, OPEN_VSWITCH, [_settings(before)], CHASSIS_OWNER, TABLES, write=write)
        if write and bridges:
            _wait_until_gone(bridges)
    return outcome + _restore_interfaces(before, bridges, write=write)


def _own_bridges(client: Client) -> dict[str, str]:
    """Return the bridges that Heddle has made, each with the uplink that is attached to it, or ""."""
    where = [["external_ids", "includes", ["map", [[_OWNER, CHASSIS_OWNER]]]]]
    select = {"op": "select", "table": "Bridge", "where": where, "columns": ["name", "external_ids"]}
    rows = client.transact(OPEN_VSWITCH, [select])[0]["rows"]
    return {row["name"]: map_pairs(row["external_ids"]).get(BRIDGE_UPLINK, "") for row in rows}


def _managed_keys() -> dict[str, set[str]]:
    """Return the keys of the row Open_vSwitch that the chassis module sets, by column."""
    host = {"name": "", "encap_ips": [], "encapsulation": "", "datapath": "", "bridges": []}
    columns = render_integration_bridge(host)[0].columns
    return {name: set(value.values) for name, value in columns.items()}


def _settings(before: Before) -> Row:
    """Return the row Open_vSwitch with the keys that Heddle sets as they were before, without a record: absent."""
    known = (before.of("node").vswitch if before.of("node") else None) or {}
    columns = {
        column: Keys({key: known.get(column, {}).get(key) for key in sorted(keys)})
        for column, keys in _managed_keys().items()
    }
    return Row("Open_vSwitch", "host", columns, match={})


def _settings_remain(client: Client, before: Before) -> bool:
    """Return whether the host is still configured as a chassis by Heddle, which `ovn-is-interconn` shows."""
    select = {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["external_ids"]}
    rows = client.transact(OPEN_VSWITCH, [select])[0]["rows"]
    found = map_pairs(rows[0]["external_ids"]) if rows else {}
    known = (before.of("node").vswitch if before.of("node") else None) or {}
    keys = _managed_keys()["external_ids"]
    return "ovn-is-interconn" in found and any(found.get(key) != known.get("external_ids", {}).get(key) for key in keys)


def _wait_until_gone(bridges: Iterable[str]) -> None:
    """Wait until Open vSwitch has removed the devices: it would leave those behind that it is stopped with."""
    left: list[str] = []
    for _attempt in attempts(_DEVICE_TIMEOUT):
        left = [bridge for bridge in bridges if read_device(bridge) is not None]
        if not left:
            return
    raise NetlinkError(f"ovs-vswitchd did not remove {', '.join(left)}; see its log on this host, and run this again")


def _restore_interfaces(before: Before, bridges: dict[str, str], *, write: bool) -> Outcome:
    """Take NICs down that were down, and report addresses that were there and are not any more."""
    outcome = Outcome()
    if kernel.PYROUTE2_IMPORT_ERROR is not None:
        return outcome
    holders = {uplink: bridge for bridge, uplink in bridges.items()}
    for name, was in before.first("interfaces").items():
        device = read_device(name)
        if device is None:
            continue
        held = {item.text for item in device.addresses}
        bridge = read_device(holders.get(name, "")) if not write and holders.get(name) else None
        held |= {item.text for item in bridge.addresses} if bridge else set()
        missing = [address for address in was["addresses"] if address not in held]
        if missing:
            outcome += Outcome(
                notes=(
                    f"{name} had {', '.join(missing)} before Heddle was installed; it was removed since, and is not "
                    "restored",
                )
            )
        if not was["up"] and device.up and not held:
            if write:
                kernel.change_link(None, name, state="down")
            outcome += Outcome((Change("kernel", "update", "link", name, "", {"up": True}, {"up": False}),))
    return outcome


def foreign_bridges() -> list[str]:
    """Return bridges of other software."""
    with reachable(VSWITCH_REMOTE, write=False) as client:
        if client is None:
            return []
        select = {"op": "select", "table": "Bridge", "where": [], "columns": ["name", "external_ids"]}
        rows = client.transact(OPEN_VSWITCH, [select])[0]["rows"]
    return sorted(row["name"] for row in rows if _OWNER not in map_pairs(row["external_ids"]))


def foreign_ports() -> dict[str, list[str]]:
    """Return ports of other software on Heddle's bridges."""
    with reachable(VSWITCH_REMOTE, write=False) as client:
        bridges = _own_bridges(client) if client else {}
        if not bridges:
            return {}
        columns = {"Bridge": ["name", "ports"], "Port": ["_uuid", "name", "external_ids"]}
        selects = [{"op": "select", "table": table, "where": [], "columns": names} for table, names in columns.items()]
        rows, ports = (answer["rows"] for answer in client.transact(OPEN_VSWITCH, selects))
    by_uuid = {port["_uuid"][1]: port for port in ports}
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["name"] not in bridges:
            continue
        for uuid in uuid_list(row["ports"]):
            ids = map_pairs(by_uuid[uuid]["external_ids"])
            if _OWNER not in ids and not _CONTROLLER_KEYS & ids.keys() and by_uuid[uuid]["name"] != row["name"]:
                found.setdefault(row["name"], []).append(by_uuid[uuid]["name"])
    return found
