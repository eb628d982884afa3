# SPDX-License-Identifier: Apache-2.0
"""Heddle's part of BIRD's configuration: blocks of table 119 by BGP to other hosts and routers, theirs in table 120.

Coil v2, "Inter-node routing", and the BIRD 2 User's Guide. BIRD demands a table of its own for each kernel table, with
a pipe between them. What is learned by BGP is written into a kernel table of its own: the main one may have another
kernel protocol, in the user's part of the configuration, and stays as it is. Only blocks within the pools are taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ...common.addressing import family, plain
from ...types.bird_configuration import Configuration
from ...types.routed_workloads import EXPORT_TABLE, LEARNED_TABLE

_HEAD = """# Written by Heddle, and replaced by it. A configuration of your own belongs into bird.conf.
"""


def render_bird(plan: dict, node: str) -> Configuration | None:
    """Return the configuration of a node; None without pools."""
    if "coil" not in plan:
        return None
    versions = sorted(set(map(family, plan["coil"]["subnets"])))
    parts = [part for version in versions for part in _of_family(plan, node, version)]
    digest = hashlib.sha256("".join(parts).encode()).hexdigest()[:16]
    mark = f"heddle {digest}"
    return Configuration(_HEAD + "".join(parts).replace("@MARK@", mark), mark)


def _of_family(plan: dict, node: str, version: int) -> Iterator[str]:
    pools = ", ".join(f"{subnet}+" for subnet in plan["coil"]["subnets"] if family(subnet) == version)
    yield f"""
ipv{version} table heddle_export{version};
ipv{version} table heddle_learned{version};

protocol kernel heddle_blocks{version} {{
  description "@MARK@";
  kernel table {EXPORT_TABLE};
  learn;
  scan time 1;
  ipv{version} {{ table heddle_export{version}; import all; export none; }};
}}

protocol kernel heddle_routes{version} {{
  kernel table {LEARNED_TABLE};
  scan time 10;
  ipv{version} {{ table heddle_learned{version}; import none; export all; }};
}}

protocol pipe heddle_pipe{version} {{
  table heddle_learned{version};
  peer table heddle_export{version};
  import where source = RTS_BGP;
  export none;
}}
"""
    bgp, own = plan["coil"]["bgp"], _address(plan["nodes"][node], version)
    if own is None:
        return
    for name, other in sorted(plan["nodes"].items()) if bgp["mesh"] else ():
        address = _address(other, version)
        if name != node and address is not None:
            neighbour = f"heddle_node{other['id']}_{version}"
            yield _session(plan, node, neighbour, name, own, address, bgp["as_number"], pools)
    for number, router in enumerate(bgp["routers"], start=1):
        if node in router.get("nodes", [node]) and family(router["address"]) == version:
            remote = router.get("as_number", bgp["as_number"])
            neighbour = f"heddle_router{number}_{version}"
            yield _session(plan, node, neighbour, "router", own, router["address"], remote, pools)


def _session(plan: dict, node: str, protocol: str, title: str, own: str, address: str, remote: int, pools: str) -> str:
    version = family(address)
    return f"""
protocol bgp {protocol} {{
  description "{title}";
  router id {_router_id(plan, node)};
  local {own} as {plan["coil"]["bgp"]["as_number"]};
  neighbor {address} as {remote};
  direct;
  ipv{version} {{
    table heddle_export{version};
    import where net ~ [ {pools} ];
    export where proto = "heddle_blocks{version}";
    next hop self;
  }};
}}
"""


def _address(node: dict, version: int) -> str | None:
    """Return the address that a node is a neighbour with: on the provider network, else where its tunnels end."""
    found = [plain(text) for text in [*node["addresses"], *node["encap_ips"]]]
    return next((text for text in found if family(text) == version), None)


def _router_id(plan: dict, node: str) -> str:
    """Return an identifier that is the node's alone (RFC 6286): its IPv4 address, else a number of the node."""
    described = plan["nodes"][node]
    return _address(described, 4) or f"0.0.{described['id'] >> 8}.{described['id'] & 255}"
