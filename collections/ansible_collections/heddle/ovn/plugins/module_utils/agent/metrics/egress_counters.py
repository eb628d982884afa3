# SPDX-License-Identifier: Apache-2.0
"""What the packet filters of Egress routers have counted: packets translated, and dropped as part of no connection."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...common.errors import ProgramError
from ...common.naming import workload_namespace
from ...common.processes import subprocesses
from ...netlink import kernel
from ...types.nftables_ruleset import EGRESS_TABLE, FAMILY

MASQUERADED, INVALID = "masqueraded", "invalid"
# The statement that ends a rule of `render/coil/egress_nat.py` with a counter (libnftables-json(5)).
_KINDS = {"masquerade": MASQUERADED, "drop": INVALID}


@dataclass(frozen=True)
class Counter:
    """One counter of a router: `kind` is MASQUERADED or INVALID, `version` that of IP."""

    kind: str
    version: int
    packets: int
    octets: int


def egress_counters(plan: dict, node: str, run: subprocesses.Run = subprocesses.run) -> dict[str, list[Counter]]:
    """Read the counters of each Egress router on the node, by its network namespace; none of one that is not there."""
    found = {}
    for one in plan.get("egress", {}).get("workloads", {}).values():
        if one["node"] != node or "router_of" not in one:
            continue
        name = workload_namespace(one["namespace"], one["name"])
        try:
            with kernel.in_netns(name):
                found[name] = counters(run(["nft", "-j", "list", "table", FAMILY, EGRESS_TABLE]))
        except (OSError, ProgramError):
            # It is not there yet.
            continue
    return found


def counters(text: str) -> list[Counter]:
    """Return the counters in the JSON of a router's table."""
    found = []
    for item in json.loads(text)["nftables"]:
        statements = {key: value for one in item.get("rule", {}).get("expr", ()) for key, value in one.items()}
        kind = next((kind for word, kind in _KINDS.items() if word in statements), None)
        if kind and "counter" in statements:
            counted = statements["counter"]
            version = 6 if _is_of_ipv6(item["rule"]["expr"]) else 4
            found.append(Counter(kind, version, counted["packets"], counted["bytes"]))
    return found


def _is_of_ipv6(expressions: list[dict]) -> bool:
    """Return whether a rule matches an address or the protocol of IPv6."""
    matches = [one["match"] for one in expressions if "match" in one]
    return any(
        one["right"] == "ipv6" or one["left"].get("payload", {}).get("protocol") == "ip6"
        for one in matches
        if isinstance(one["left"], dict)
    )
