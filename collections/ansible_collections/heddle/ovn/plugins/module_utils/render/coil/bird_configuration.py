# SPDX-License-Identifier: Apache-2.0
"""Heddle's part of BIRD's configuration: blocks of table 119 to other hosts and routers, theirs in table 120.

Coil v2, "Inter-node routing", and the BIRD 2 User's Guide. BIRD demands a table of its own for each kernel table, with
a pipe between them. What is learned is written into a kernel table of its own: the main one may have another kernel
protocol, in the user's part of the configuration, and stays as it is. Only blocks within the pools are taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ...common.addressing import family
from ...types.bird_configuration import BGP, MARK, OSPF, Configuration
from ...types.routed_workloads import EXPORT_TABLE, LEARNED_TABLE
from .bird_sessions import router_id, sessions

_HEAD = """# Written by Heddle, and replaced by it. A configuration of your own belongs into bird.conf.
"""


def render_bird(plan: dict, node: str) -> Configuration | None:
    """Return the configuration of a node; None without pools."""
    if "coil" not in plan:
        return None
    versions = sorted(set(map(family, plan["coil"]["subnets"])))
    text = _HEAD + "".join(part for version in versions for part in _of_family(plan, node, version))
    bfd = _bfd(plan)
    return Configuration(text, hashlib.sha256((text + bfd).encode()).hexdigest()[:16], bfd)


def _bfd(plan: dict) -> str:
    """RFC 5880: a neighbour is down when nothing came from it for so many intervals."""
    bfd, protocol = (plan["coil"]["routing"][name] for name in ("bfd", "protocol"))
    if bfd is None or protocol not in (BGP, OSPF):
        return ""
    return f"""
protocol bfd heddle_bfd {{
  interface "*" {{ interval {bfd["interval"]} ms; multiplier {bfd["multiplier"]}; }};
}}
"""


def _of_family(plan: dict, node: str, version: int) -> Iterator[str]:
    pools = ", ".join(f"{subnet}+" for subnet in plan["coil"]["subnets"] if family(subnet) == version)
    # A block of this host is never replaced by what another one says of it: BIRD's default is 10 for what it reads from
    # the kernel, 100 for BGP, and 150 for OSPF.
    yield f"""
define heddle_pools{version} = [ {pools} ];
ipv{version} table heddle_export{version};
ipv{version} table heddle_learned{version};

protocol kernel heddle_blocks{version} {{
  description "{MARK}";
  kernel table {EXPORT_TABLE};
  learn;
  scan time 1;
  ipv{version} {{ table heddle_export{version}; preference 200; import all; export none; }};
}}

protocol kernel heddle_routes{version} {{
  kernel table {LEARNED_TABLE};
  scan time 10;
  ipv{version} {{ table heddle_learned{version}; import none; export all; }};
}}

protocol pipe heddle_pipe{version} {{
  table heddle_learned{version};
  peer table heddle_export{version};
  import where proto != "heddle_blocks{version}";
  export none;
}}
"""
    routing = plan["coil"]["routing"]
    if routing["protocol"] == BGP:
        yield from sessions(plan, node, version)
    elif routing["protocol"] == OSPF:
        yield _ospf(plan, node, version)


def _ospf(plan: dict, node: str, version: int) -> str:
    """Blocks are external routes (RFC 2328, section 16.4), for both families by their own version of OSPF."""
    ospf = plan["coil"]["routing"]["ospf"]
    options = "bfd; " if plan["coil"]["routing"]["bfd"] else ""
    interfaces = "".join(f'    interface "{name}" {{ {options}}};\n' for name in ospf["interfaces"])
    return f"""
protocol ospf v{2 if version == 4 else 3} heddle_ospf{version} {{
  router id {router_id(plan, node)};
  ipv{version} {{
    table heddle_export{version};
    import where net ~ heddle_pools{version};
    export where proto = "heddle_blocks{version}";
  }};
  area {ospf["area"]} {{
{interfaces}  }};
}}
"""
