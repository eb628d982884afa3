# SPDX-License-Identifier: Apache-2.0
"""QoS rows of EgressQoS: the DSCP (RFC 2474) of what workloads of the default network send.

The first rule that matches decides: its priority is the highest. One row for each rule, whatever the number of
workloads, which are in an address set.
"""

from __future__ import annotations

from ...common.addressing import family, plain
from ...types.ovsdb_row import Parent, Row
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import SWITCH
from ..policy.policy_rows import address_set, address_set_name, object_ids

FIRST_PRIORITY = 1000
_OWNER = "EgressQoS"
_EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}


def render_egress_qos(view: NodeNetwork) -> list[Row]:
    """Return the rows of the default network in this node's zone: of rules that workloads of this node have."""
    if not view.is_default:
        return []
    addresses: dict[str, list[str]] = {}
    for workload, interface in view.workloads:
        if view.node in hosting_nodes(workload):
            name = f"{workload['namespace']}/{workload['name']}"
            addresses[name] = [plain(address) for address in interface["addresses"]]
    rows: list[Row] = []
    for entry in view.plan.get("egress_qos", ()):
        for index, rule in enumerate(entry["rules"]):
            sources = [address for name in rule["workloads"] for address in addresses.get(name, ())]
            if sources:
                rows += _rule(view, entry["namespace"], index, rule, sources)
    return rows


def _rule(view: NodeNetwork, namespace: str, index: int, rule: dict, sources: list[str]) -> list[Row]:
    on, name = view.workload_switch, f"{namespace}:{index}"
    families = [one for one in view.network["families"] if not rule["target"] or family(rule["target"]) == one]
    if not families:
        return []
    match = " || ".join(
        f"(ip{one}.dst == {rule['target'] or _EVERYWHERE[one]} && "
        f"ip{one}.src == ${address_set_name(view, _OWNER, name, one)})"
        for one in families
    )
    columns = {
        "direction": "to-lport",
        "priority": FIRST_PRIORITY - index,
        "match": match,
        "action": {"dscp": rule["dscp"]},
        "external_ids": object_ids(view, _OWNER, {"name": namespace, "priority": str(FIRST_PRIORITY - index)}),
    }
    key = f"{on} {namespace} {FIRST_PRIORITY - index}"
    return [
        *(address_set(view, _OWNER, name, one, sources) for one in families),
        Row("QoS", key, columns, view.name, Parent(SWITCH, on, "qos_rules")),
    ]
