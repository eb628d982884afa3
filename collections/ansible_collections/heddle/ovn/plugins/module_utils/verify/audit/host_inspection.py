# SPDX-License-Identifier: Apache-2.0
"""Collects the actual state of a host: bridges, VRFs, rules, routes, nftables, conntrack entries.

Read-only, except for datagrams to an external host from each workload whose connections are shown.
"""

from __future__ import annotations

import contextlib
import json

from ...agent.context import NodeContext
from ...agent.module_runner import Request, UserError, known_node, load_plan, node_context
from ...common.addressing import family
from ...common.databases import SOUTHBOUND_REMOTE
from ...common.errors import ProgramError
from ...common.naming import management_interface
from ...common.polling import attempts
from ...common.processes.subprocesses import run
from ...ovsdb.values import to_python
from ...render.common.node_network import NodeNetwork
from ...render.common.provider import provider_of
from ...render.gateway.bridge import connection_mark
from ..external_trace import SOURCE_PORT, TARGET_PORT, egress_packet, overlapping
from ..ip_command import ip
from ..packets import traced_packets
from ..probing.listening import open_sender, places

FORMAT = 1
MOST_ENTRIES = 300
_ON_BRIDGE = "zone=64000"
# Seconds within which Open vSwitch has set up a new connection, also on a host that is slow and busy; in local gateway
# mode, where connections leave through the host and carry no marks to wait for, another number.
_PATIENCE, _PATIENCE_LOCAL = 30.0, 3.0
_TABLES = ("Bridge:name,ports,datapath_type", "Port:_uuid,name,interfaces", "Interface:_uuid,name,type,options,mtu")


def host_info_result(request: Request) -> dict:
    """Return the result of the module `host_info`."""
    return {"changed": False, **_inspected(node_context(request), request.params["external"])}


def _inspected(context: NodeContext, external: list[str]) -> dict:
    """Return `host`, the document that the notebook draws, and `traces`; all values are JSON.

    `external` are addresses on the provider network. The keys of `host`: `format`, `node`, `plan` (digest), `mode`,
    `bridges` (as `bridges` returns), `vrfs` (`name`, `table`, `members`), `addresses` (by link, with prefix length),
    `rules` and `routes` (as `ip -json` prints, with `family`), `firewall` (text of nft(8)), `flows` (table -> number),
    `pair` ([workload, network, address] of two networks with one subnet), `conntrack` (lines of ovs-dpctl(8)) and
    `egress` (a packet with the texts `logical` of ovn-trace(8) and `physical` of ofproto/trace, or None). `traces` are
    this host's legs of `traced_packets`, with their `place` among all and ovn-trace's output or error as `text`.
    Raises UserError when a program fails or the node is not in the plan.
    """
    plan = load_plan(context)
    node = known_node(plan, context.node)
    provider = provider_of(plan["nodes"][node])
    pair = overlapping(plan, node, external)
    packet = egress_packet(plan, node, external)
    try:
        host = {
            "format": FORMAT,
            "node": node,
            "plan": plan["digest"],
            "mode": provider.mode if provider else None,
            "bridges": bridges(*(_table(name) for name in _TABLES)),
            **_kernel(plan),
            "flows": _flow_counts(run(["ovs-ofctl", "dump-flows", provider.bridge])) if provider else {},
            "pair": [list(one) for one in pair],
            "conntrack": _tracked(plan, node, pair, external, local=provider.is_local) if provider else [],
            "egress": _traced(packet) if packet else None,
        }
    except ProgramError as error:
        raise UserError(str(error)) from error
    return {"host": host, "traces": _legs(plan, node)}


def _table(spec: str) -> list[dict]:
    name, _colon, columns = spec.partition(":")
    found = json.loads(run(["ovs-vsctl", "--format=json", f"--columns={columns}", "list", name]))
    return [{head: to_python(cell) for head, cell in zip(found["headings"], row, strict=True)} for row in found["data"]]


def _listed(value) -> list:
    return value if isinstance(value, list) else [value]


def bridges(found: list[dict], ports: list[dict], interfaces: list[dict]) -> list[dict]:
    """Return `name`, `datapath` and `ports` of each bridge; a port has `name`, `type` and, of a patch, its `peer`."""
    port_of = {port["_uuid"]: port for port in ports}
    interface_of = {interface["_uuid"]: interface for interface in interfaces}
    return [
        {
            "name": bridge["name"],
            "datapath": bridge["datapath_type"] or "system",
            "ports": [
                {"name": one["name"], "type": one["type"] or "system", "peer": one["options"].get("peer")}
                for uuid in _listed(bridge["ports"])
                for identity in _listed(port_of[uuid]["interfaces"])
                for one in [interface_of[identity]]
            ],
        }
        for bridge in sorted(found, key=lambda one: one["name"])
    ]


def _kernel(plan: dict) -> dict:
    links = ip("-details", "address", "show")
    vrfs = {
        link["ifname"]: link["linkinfo"]["info_data"]["table"]
        for link in links
        if link.get("linkinfo", {}).get("info_kind") == "vrf"
    }
    own = {management_interface(network["id"]) for network in plan["networks"].values()}
    bridges_ = {(node.get("gateway") or {}).get("bridge") for node in plan["nodes"].values()}
    rules = [{**rule, "family": version} for version in (4, 6) for rule in ip(f"-{version}", "rule")]
    routes = [
        {**route, "family": version}
        for version in (4, 6)
        for route in ip(f"-{version}", "route", "show", "table", "all")
        if route.get("table", "main") != "local" and route.get("type", "unicast") in ("unicast", "unreachable")
    ]
    return {
        "vrfs": [
            {"name": name, "table": table, "members": [one["ifname"] for one in links if one.get("master") == name]}
            for name, table in vrfs.items()
        ],
        "addresses": {
            link["ifname"]: [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"]]
            for link in links
            if link["ifname"] in own | bridges_ | set(vrfs)
        },
        "rules": [rule for rule in rules if rule["family"] == 4 or rule["priority"] not in (0, 32766)],
        "routes": [route for route in routes if not str(route.get("dst", "")).startswith(("fe80:", "ff00:"))],
        "firewall": _firewall(),
    }


def _firewall() -> str:
    try:
        return run(["nft", "--stateless", "list", "table", "inet", "heddle"])
    except ProgramError as error:
        return str(error)


def _flow_counts(text: str) -> dict[str, int]:
    """Return how many flows each table of a bridge has."""
    counts: dict[str, int] = {}
    for line in text.splitlines():
        _before, found, after = line.partition("table=")
        if found:
            table = after.split(",")[0]
            counts[table] = counts.get(table, 0) + 1
    return counts


def _tracked(plan: dict, node: str, pair: list[tuple[str, str, str]], external: list[str], *, local: bool) -> list[str]:
    """Return entries with an address of the pair, and those of the provider bridge with translated addresses.

    Earlier connections of the pair may have expired, so each begins a new one, both from the same port. A host that is
    busy loses datagrams, so they are sent again.
    """
    marks = [f"mark={connection_mark(NodeNetwork(plan, network, node, []))}" for _workload, network, _address in pair]
    entries: list[str] = []
    for _attempt in attempts(_PATIENCE_LOCAL if local else _PATIENCE, shortest=0.1, longest=1.0):
        is_sent = _send(plan, node, pair, external)
        entries = run(["ovs-appctl", "dpctl/dump-conntrack"]).splitlines()
        on_bridge = [line for line in entries if _ON_BRIDGE in line]
        if not is_sent or all(_having(mark, on_bridge) for mark in marks):
            break
    return distinguished(entries, marks, [address for _workload, _network, address in pair])


def distinguished(entries: list[str], marks: list[str], addresses: list[str]) -> list[str]:
    """Return the entries of the pair, then others of the provider bridge, without duplicates."""
    on_bridge = [line for line in entries if _ON_BRIDGE in line]
    marked = [line for mark in marks for line in _having(mark, on_bridge)]
    addressed = [line for line in entries if any(f"={address}," in line for address in addresses)]
    return list(dict.fromkeys([*marked, *addressed, *on_bridge]))[:MOST_ENTRIES]


def _having(mark: str, entries: list[str]) -> list[str]:
    return [line for line in entries if line.endswith(mark) or f"{mark}," in line]


def _send(plan: dict, node: str, pair: list[tuple[str, str, str]], external: list[str]) -> bool:
    """Send a datagram from each of the pair; return whether both have a way to."""
    found = places(plan, node)
    ready = 0
    for workload, _network, address in pair:
        target = next((one for one in external if family(one) == family(address)), None)
        # A connection of a virtual machine cannot be started from the host.
        if target and workload in found:
            ready += 1
            with contextlib.suppress(OSError), open_sender(found[workload], family(address)) as sender:
                sender.bind((address, SOURCE_PORT))
                sender.sendto(b"", (target, TARGET_PORT))
    return ready == len(pair)


def _legs(plan: dict, node: str) -> list[dict]:
    """Trace the legs of packets between hosts that are on this one; one that fails does not hide the others."""
    legs = [{**leg, "place": place} for place, leg in enumerate(traced_packets(plan)) if leg["node"] == node]
    for leg in legs:
        try:
            leg["text"] = _logical(leg)
        except ProgramError as error:
            leg["text"] = str(error)
    return legs


def _logical(packet: dict) -> str:
    return run(["ovn-trace", f"--db={SOUTHBOUND_REMOTE}", "--detailed", packet["datapath"], packet["microflow"]])


def _traced(packet: dict) -> dict:
    logical = _logical(packet)
    physical = run(["ovs-appctl", "ofproto/trace", packet["bridge"], packet["flow"]])
    return {**packet, "logical": logical, "physical": physical}
