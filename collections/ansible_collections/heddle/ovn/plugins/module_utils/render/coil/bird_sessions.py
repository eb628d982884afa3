# SPDX-License-Identifier: Apache-2.0
"""The neighbours of a node by BGP: hosts of its autonomous system, or their route reflectors, and routers.

Between hosts of different autonomous systems (racks) there are no sessions: routers pass on what they learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...common.addressing import family
from .node_address import node_address


@dataclass(frozen=True)
class _Neighbour:
    protocol: str
    title: str
    address: str
    as_number: int
    is_client: bool = False


def sessions(plan: dict, node: str, version: int) -> Iterator[str]:
    """Yield BIRD's protocols for the neighbours of a node in a family; none without an address of that family."""
    own = node_address(plan["nodes"][node], version)
    if own is not None:
        for neighbour in (*_hosts(plan, node, version), *_routers(plan, node, version)):
            yield _session(plan, node, own, neighbour)


def as_number(plan: dict, node: str) -> int:
    """Return the number of the autonomous system of a node: its rack's, else that of the hosts."""
    routing = plan["coil"]["routing"]
    return next((rack["as_number"] for rack in routing["racks"] if node in rack["nodes"]), routing["as_number"])


def router_id(plan: dict, node: str) -> str:
    """Return an identifier that is the node's alone (RFC 6286): its IPv4 address, else a number of the node."""
    described = plan["nodes"][node]
    return node_address(described, 4) or f"0.0.{described['id'] >> 8}.{described['id'] & 255}"


def _reflectors(plan: dict, node: str) -> list[str]:
    """Return the route reflectors of the node's autonomous system (RFC 4456)."""
    return [
        name
        for name in plan["coil"]["routing"]["route_reflectors"]
        if name in plan["nodes"] and as_number(plan, name) == as_number(plan, node)
    ]


def _hosts(plan: dict, node: str, version: int) -> Iterator[_Neighbour]:
    reflectors = _reflectors(plan, node)
    if not reflectors and not plan["coil"]["routing"]["mesh"]:
        return
    for name, other in sorted(plan["nodes"].items()):
        address = node_address(other, version)
        if name == node or address is None or as_number(plan, name) != as_number(plan, node):
            continue
        if not reflectors or node in reflectors or name in reflectors:
            is_client = node in reflectors and name not in reflectors
            protocol = f"heddle_node{other['id']}_{version}"
            yield _Neighbour(protocol, name, address, as_number(plan, node), is_client)


def _routers(plan: dict, node: str, version: int) -> Iterator[_Neighbour]:
    for number, router in enumerate(plan["coil"]["routing"]["routers"], start=1):
        if node in router.get("nodes", [node]) and family(router["address"]) == version:
            remote = router.get("as_number", as_number(plan, node))
            yield _Neighbour(f"heddle_router{number}_{version}", "router", router["address"], remote)


def _session(plan: dict, node: str, own: str, neighbour: _Neighbour) -> str:
    version, routing = family(neighbour.address), plan["coil"]["routing"]
    exported = f'proto = "heddle_blocks{version}"'
    next_hop = "next hop self;"
    options = "  bfd;\n" if routing["bfd"] else ""
    if node in _reflectors(plan, node) and neighbour.as_number == as_number(plan, node):
        # A reflector passes on blocks of hosts of its own autonomous system, whose path is empty, with their addresses
        # as next hops (RFC 4456, section 10).
        exported += " || (source = RTS_BGP && bgp_path.len = 0)"
        next_hop = "next hop self off;"
    if neighbour.is_client:
        options += "  rr client;\n"
    return f"""
protocol bgp {neighbour.protocol} {{
  description "{neighbour.title}";
  router id {router_id(plan, node)};
  local {own} as {as_number(plan, node)};
  neighbor {neighbour.address} as {neighbour.as_number};
  direct;
  hold time {routing["hold_time"]};
  error wait time 2, 60;
{options}  ipv{version} {{
    table heddle_export{version};
    import where net ~ heddle_pools{version};
    export where {exported};
    {next_hop}
  }};
}}
"""
