# SPDX-License-Identifier: Apache-2.0
"""Makes a host a chassis: Open vSwitch's settings, its bridges, and the uplinks attached to them."""

from __future__ import annotations

import os

from ...common.change import Outcome
from ...common.databases import OPEN_VSWITCH, SOUTHBOUND_REMOTE, VSWITCH_REMOTE
from ...common.naming import INTEGRATION_BRIDGE, LINK_NAME, PHYSICAL_NETWORK
from ...common.next_hops import next_hop_problem
from ...netlink import kernel
from ...netlink.device import advertised_interfaces, default_gateways, read_device, read_device_mac
from ...netlink.handle import vrf_supported
from ...netlink.kernel_modules import datapath_type
from ...netlink.nics import held_addresses, nic_addresses, smallest_mtu
from ...netlink.uplink_migration import move_device
from ...nftables.reconcile import reconcile_firewall
from ...ovsdb.protocol.client import Client
from ...ovsdb.values import map_pairs, uuid_list
from ...ovsdb.vswitchd import Reconfiguration
from ...render.host.firewall import render_userspace_interfaces
from ...render.host.vswitch import (
    BRIDGE_UPLINK,
    ENCAPSULATION,
    TABLES,
    UNDERLAY_BRIDGE,
    render_integration_bridge,
)
from ...types.encapsulation import GENEVE, OVERLAYS
from ...types.nftables_ruleset import USERSPACE_TABLE, Firewall
from ..egress_nat import known_lacking
from ..health.health_prober_cgroup import CGROUPS
from ..internal_ports import await_internal_ports
from ..module_runner import HOST_FILE, PLAN_FILE, UserError, connected
from ..plan_file import keep_host, kept_plan
from ..topology import apply_rows
from .chassis_id import SYSTEM_ID_FILE, identifiers, planned_chassis, restore_chassis_id
from .name_servers import read_name_servers

# The datapath of a host that has neither Open vSwitch nor OVN.
WITHOUT_SWITCH = "none"
UNKNOWN_IN_CHECK_MODE = "(known once pyroute2 is installed)"


def apply_chassis(params: dict, *, write: bool, encapsulation: str = "") -> tuple[Outcome, dict]:
    """Configure Open vSwitch for ovn-controller; return the outcome and the facts that the host reports.

    `params` are the options of the module chassis. Without an `encapsulation`, which a plan has, the host keeps its
    own.

    Bridges are made first, then uplinks are attached; the uplink of a bridge that is no longer wanted is detached
    first.
    """
    if params["datapath"] == WITHOUT_SWITCH:
        return _without_switch(params, write=write)
    datapath = datapath_type() if params["datapath"] == "auto" else params["datapath"]
    ready = kernel.PYROUTE2_IMPORT_ERROR is None
    if not ready and write:
        raise UserError("pyroute2 is missing on this host; install python3-pyroute2")
    if params["provider"] and params["provider"]["mode"] == "local" and ready and not vrf_supported():
        raise UserError(
            f"the kernel of {params['name']} has no VRFs, which local gateway mode needs (CONFIG_NET_VRF); "
            "install a kernel with the vrf module, or set heddle_gateway_mode: shared for this host"
        )
    bridges = _bridges(params, datapath, ready)
    if params["provider"] and ready:
        _refuse_next_hops(params["provider"])
    outcome = Outcome()
    with connected(VSWITCH_REMOTE, write=write) as client:
        host = {
            "name": params["name"], "encap_ips": params["encap_ips"],
            "encapsulation": encapsulation or _encapsulation(client), "datapath": datapath, "bridges": bridges,
        }  # fmt: skip
        if client:
            _refuse_foreign(client, bridges)
            if ready:
                outcome += _detach_uplinks(client, params["owner"], bridges, datapath, write=write)
        rows, change = render_integration_bridge(host), Reconfiguration()
        outcome += apply_rows(client, OPEN_VSWITCH, rows, params["owner"], TABLES, write=write, closing=change)
        planned = planned_chassis(params["name"]) if client else ""
        if planned:
            outcome += restore_chassis_id(client, planned, SYSTEM_ID_FILE, write=write)
        stand_in = f"(chassis of {params['name']}, known once Open vSwitch runs)"
        chassis = (planned or _system_id(client)) if client else stand_in
        attached = [bridge for bridge in bridges if bridge["uplink"] and ready]
        if write:
            _wait_for_bridges(client, attached, change.number)
    outcome += keep_host({"node": params["name"], "chassis": dict(params)}, HOST_FILE, write=write)
    for bridge in attached:
        outcome += move_device(bridge["uplink"], bridge["name"], write=write)
    if ready:
        outcome += _reconcile_userspace_interfaces(_userspace_interfaces(bridges, datapath), datapath, write=write)
    facts = {"chassis": chassis, "datapath": datapath, "gateway": _gateway(params, bridges, datapath, ready)}
    return outcome, {
        **facts,
        "underlay_mtu": smallest_mtu(params["encap_ips"]) if ready else None,
        "kernel_lacks": known_lacking() if ready else None,
        "other_addresses": _other_addresses(bridges) if ready else None,
        "held_addresses": held_addresses() if ready else [],
        "name_servers": read_name_servers(),
        "planned": os.path.exists(PLAN_FILE),
        "kept_plan": kept_plan(PLAN_FILE),
    }


def _wait_for_bridges(client, bridges: list[dict], announced: int | None) -> None:
    """Wait until the host's own interfaces on its bridges have their MAC addresses, before IP configuration moves."""
    macs = {bridge["name"]: bridge["mac"] for bridge in bridges}
    for name, reason in await_internal_ports(client, macs, announced).items():
        raise UserError(f"bridge {name} has no link: {reason}")


def _other_addresses(bridges: list[dict]) -> dict[str, list[str]]:
    """Return the host's addresses on NICs that no bridge of Heddle has, by NIC."""
    own = {bridge[key] for bridge in bridges for key in ("name", "uplink") if bridge[key]}
    return nic_addresses(frozenset(own))


def _encapsulation(client) -> str:
    """Return the encapsulation that the host has, which the plan decides; Geneve before there is a plan."""
    found = identifiers(client).get(ENCAPSULATION) if client else None
    return found if found in OVERLAYS else GENEVE.kind


def _without_switch(params: dict, *, write: bool) -> tuple[Outcome, dict]:
    """Store what the service needs on a host without Open vSwitch, where the kernel alone forwards."""
    outcome = keep_host({"node": params["name"], "chassis": dict(params)}, HOST_FILE, write=write)
    ready = kernel.PYROUTE2_IMPORT_ERROR is None
    lacking = known_lacking() if ready else None
    mtu = smallest_mtu(params["encap_ips"]) if ready else None
    return outcome, {
        "chassis": "", "datapath": WITHOUT_SWITCH, "gateway": {}, "underlay_mtu": mtu, "kernel_lacks": lacking,
        "other_addresses": _other_addresses([]) if ready else None,
        "held_addresses": [], "name_servers": read_name_servers(),
        "planned": os.path.exists(PLAN_FILE), "kept_plan": kept_plan(PLAN_FILE),
    }  # fmt: skip


def _detach_uplinks(client, owner: str, bridges: list[dict], datapath: str, *, write: bool) -> Outcome:
    """Detach uplinks of bridges that are not wanted or get another uplink, and restore their IP configuration."""
    where = [["external_ids", "includes", ["map", [["heddle/owner", owner]]]]]
    select = {"op": "select", "table": "Bridge", "where": where, "columns": ["name", "external_ids"]}
    wanted = {bridge["name"]: bridge["uplink"] for bridge in bridges}
    outcome, kept, detached = Outcome(), [], []
    for row in client.transact(OPEN_VSWITCH, [select])[0]["rows"]:
        uplink = map_pairs(row["external_ids"]).get(BRIDGE_UPLINK)
        if uplink and wanted.get(row["name"]) == uplink:
            kept.append(uplink)
        elif uplink and read_device(row["name"]) and read_device(uplink):
            detached.append((row["name"], uplink))
    if detached and write:
        # The host must receive packets on the uplink before its addresses move there.
        outcome += _reconcile_userspace_interfaces(kept, datapath, write=True)
    for bridge, uplink in detached:
        outcome += move_device(bridge, uplink, write=write)
    return outcome


def _bridges(params: dict, datapath: str, ready: bool) -> list[dict]:
    """Return the bridges besides the integration bridge, as `render_integration_bridge` takes them."""
    provider = params["provider"]
    bridges = []
    for bridge in wanted_bridges(params, datapath):
        vlan = provider["vlan"] if provider and bridge["name"] == provider["bridge"] else None
        mac = _mac(bridge["uplink"]) if ready else UNKNOWN_IN_CHECK_MODE
        bridges.append({**bridge, "mac": mac, "vlan": vlan})
    return bridges


def wanted_bridges(params: dict, datapath: str | None = None) -> list[dict]:
    """Return `name`, `uplink` (the one attached to it, or None) and `physical_networks` of each bridge.

    Without `datapath` it is detected from the kernel. UserError when the arguments contradict each other.
    """
    if params["datapath"] == WITHOUT_SWITCH:
        return []
    if datapath is None:
        datapath = datapath_type() if params["datapath"] == "auto" else params["datapath"]
    wanted: dict[str, dict] = {}
    if datapath == "netdev":
        if not params["underlay_interface"]:
            raise UserError(
                "this kernel has no Open vSwitch, and its userspace datapath needs the underlay's NIC: "
                "give underlay_interface, or install a kernel with the openvswitch module"
            )
        # Userspace Geneve only uses a bridge of the same datapath, which then carries the host's addresses.
        wanted[UNDERLAY_BRIDGE] = {"uplink": params["underlay_interface"], "physical_networks": []}
    provider = params["provider"]
    if provider:
        wanted[provider["bridge"]] = {"uplink": provider["uplink"], "physical_networks": [PHYSICAL_NETWORK]}
    for network, given in sorted(params["physical_networks"].items()):
        if "bridge" not in given or given.keys() - {"bridge", "uplink"}:
            raise UserError(f"physical network {network}: must have bridge and, if no other gives it, uplink")
        bridge = wanted.setdefault(given["bridge"], {"uplink": given.get("uplink"), "physical_networks": []})
        if bridge["uplink"] is None:
            bridge["uplink"] = given.get("uplink")
        if given.get("uplink", bridge["uplink"]) != bridge["uplink"]:
            raise UserError(
                f"physical network {network}: bridge {given['bridge']} has the uplink {bridge['uplink']} already, not "
                f"{given['uplink']}; give it a bridge of its own"
            )
        bridge["physical_networks"].append(network)
    bridges = [{"name": name, **bridge} for name, bridge in wanted.items()]
    _refuse_names(bridges)
    return bridges


def _refuse_names(bridges: list[dict]) -> None:
    """Reject names that Open vSwitch or the kernel would not accept, before anything is made."""
    holders: dict[str, str] = {}
    for bridge in bridges:
        name, uplink = bridge["name"], bridge["uplink"]
        if not LINK_NAME.fullmatch(name) or name == INTEGRATION_BRIDGE:
            raise UserError(
                f"bridge {name}: choose a name of 1 to 15 letters, digits, dots, hyphens and underscores, "
                f"and not {INTEGRATION_BRIDGE}"
            )
        for network in bridge["physical_networks"]:
            if not network or set(network) & set(":, "):
                raise UserError(f"physical network {network!r}: the name must have no colon, comma or space")
        if bridge["physical_networks"].count(PHYSICAL_NETWORK) > 1:
            raise UserError(f"physical network {PHYSICAL_NETWORK}: the name is reserved for the provider network")
        if uplink and holders.setdefault(uplink, name) != name:
            raise UserError(f"{uplink} cannot be a port of both {holders[uplink]} and {name}; put both on one bridge")
    for bridge in bridges:
        if bridge["name"] in holders:
            raise UserError(f"bridge {bridge['name']} has the name of an interface; choose another one")


def _reconcile_userspace_interfaces(uplinks: list[str], datapath: str, *, write: bool) -> Outcome:
    """Make the kernel ignore packets that a userspace datapath reads. The gateway part reports foreign tables."""
    in_userspace = datapath == "netdev"
    table = render_userspace_interfaces(uplinks) if in_userspace else Firewall(table=USERSPACE_TABLE)
    return Outcome(reconcile_firewall(table, write=write).changes)


def _userspace_interfaces(bridges: list[dict], datapath: str) -> list[str]:
    return sorted(bridge["uplink"] for bridge in bridges if bridge["uplink"]) if datapath == "netdev" else []


def matched_prober(provider: dict) -> str:
    """Return the prober's cgroup, without slashes at its ends; "" where nftables cannot match cgroups.

    Only the unified hierarchy (cgroup version 2) has them.
    """
    return provider.get("prober", "").strip("/") if (CGROUPS / "cgroup.controllers").exists() else ""


def _mac(interface: str | None) -> str | None:
    if interface is None:
        return None
    mac = read_device_mac(interface)
    if mac is None:
        raise UserError(f"there is no interface {interface}; this host has {', '.join(kernel.read_links(None))}")
    return mac


def _gateway(params: dict, bridges: list[dict], datapath: str, ready: bool) -> dict | None:
    """Return how this host is connected to the provider network, as `render/common/provider.py` describes it.

    Empty without a provider network, which removes what the host reported before; None when it cannot be determined.
    """
    provider = params["provider"]
    if not provider or not ready:
        return None if provider else {}
    bridge, uplink = read_device(provider["bridge"]), read_device(provider["uplink"])
    # In check mode the bridge may not exist yet; it will get the uplink's properties.
    addresses = [held.text for device in (bridge, uplink) if device for held in device.addresses]
    gateways = [gateway for device in (bridge, uplink) if device for gateway in default_gateways(device)]
    hops = provider["next_hops"] or gateways
    return {
        "mode": provider["mode"],
        "bridge": provider["bridge"],
        "uplink": provider["uplink"],
        "mac": uplink.mac if uplink else UNKNOWN_IN_CHECK_MODE,
        "addresses": provider_addresses(addresses, provider),
        "next_hops": list({":" in hop: hop for hop in reversed(hops)}.values())[::-1],
        "vlan": provider["vlan"],
        "physical_networks": {
            network: bridge["name"]
            for bridge in bridges
            for network in bridge["physical_networks"]
            if network != PHYSICAL_NETWORK
        },
        "vrf": vrf_supported(),
        "prober": matched_prober(provider),
        "userspace_interfaces": _userspace_interfaces(bridges, datapath),
        "translated_ports": local_ports(),
        "advertised_interfaces": [uplink for uplink in advertised_interfaces() if uplink != provider["bridge"]],
    }


def local_ports(path: str = "/proc/sys/net/ipv4/ip_local_port_range") -> str:
    """Return the ports that this host gives connections of its own, `FIRST-LAST` (ip-sysctl.rst).

    Translated connections leave with the host's address and get ports of the same range, as in ovn-kubernetes.
    """
    with open(path, encoding="ascii") as text:
        first, last = text.read().split()
    return f"{first}-{last}"


def provider_addresses(addresses: list[str], provider: dict) -> list[str]:
    """Return IPv4 before IPv6, and within a family those in the inventory first; UserError when there are none."""
    if not addresses:
        raise UserError(
            f"neither {provider['bridge']} nor {provider['uplink']} has an address, and gateway routers translate "
            "to the host's own: restore the host's network configuration, or remove the uplink from the inventory"
        )
    order = {address.partition("/")[0]: place for place, address in enumerate(provider["addresses"])}

    def rank(address: str) -> tuple:
        return ":" in address, order.get(address.partition("/")[0], len(order)), address

    return sorted(dict.fromkeys(addresses), key=rank)


def chassis_id(remote: str) -> str:
    """Return the system-id of the Open vSwitch whose database is at `remote`, "" when it has none."""
    with Client(remote, read_only=True) as client:
        return identifiers(client).get("system-id", "")


def _refuse_next_hops(provider: dict) -> None:
    """Reject next hops of the inventory that the uplink does not reach; those of the kernel's routes are reachable."""
    devices = (read_device(provider["bridge"]), read_device(provider["uplink"]))
    addresses = [held.text for device in devices if device for held in device.addresses]
    for hop in provider["next_hops"] if addresses else ():
        problem = next_hop_problem(hop, provider["uplink"], addresses)
        if problem:
            raise UserError(f"next hop {problem}; write the address of a router there in heddle_provider_next_hops")


def _refuse_foreign(client, bridges: list[dict]) -> None:
    """Reject a host of another OVN deployment, and an uplink that is a port of a foreign bridge."""
    remote = identifiers(client).get("ovn-remote", SOUTHBOUND_REMOTE)
    if remote != SOUTHBOUND_REMOTE:
        raise UserError(
            f"this host belongs to another OVN: external_ids:ovn-remote is {remote}; "
            "take it out of that one first (ovs-vsctl remove Open_vSwitch . external_ids ovn-remote)"
        )
    selects = [
        {"op": "select", "table": table, "where": [], "columns": ["_uuid", "name", *more]}
        for table, more in (("Bridge", ["ports"]), ("Port", []))
    ]
    there, ports = (answer["rows"] for answer in client.transact(OPEN_VSWITCH, selects))
    names = {port["_uuid"][1]: port["name"] for port in ports}
    holders = {}
    for bridge in there:
        holders |= {names[uuid]: bridge["name"] for uuid in uuid_list(bridge["ports"])}
    for bridge in bridges:
        holder = holders.get(bridge["uplink"], bridge["name"])
        if holder != bridge["name"] and holder in {one["name"] for one in there} - {one["name"] for one in bridges}:
            raise UserError(
                f"{bridge['uplink']} is a port of the bridge {holder}, which is not Heddle's; name that bridge in "
                f"the inventory instead of {bridge['name']}, or take the uplink out of it (ovs-vsctl del-port {holder} "
                f"{bridge['uplink']})"
            )


def _system_id(client) -> str:
    found = identifiers(client)
    if "system-id" not in found:
        raise UserError("Open vSwitch has no system-id; restart openvswitch-switch, which sets it")
    return found["system-id"]
