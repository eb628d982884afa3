# SPDX-License-Identifier: Apache-2.0
"""EgressFirewall and EgressQoS: the network and the workloads that each is about, and its status.

Both are about the workloads of their namespace on its primary network; an EgressQoS only where that is the default one,
as in ovn-kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...api import matches
from ...store.snapshot import Snapshot, StoredObject
from ..conditions import ACCEPTED, FALSE, TRUE, described
from ..network.attachment import Attachments, workload_key
from ..network.networks import Network, networks, running_workloads
from ..node_addresses import NodeAddresses
from ..node_conditions import with_acceptance
from ..policy.policies import policy_network, without_ovn
from ..policy.policy_resolver import acl_logging
from .egress_ips import primary_network

EGRESS_FIREWALL, EGRESS_QOS = "EgressFirewall", "EgressQoS"


def egress_firewalls(snapshot: Snapshot, found: dict[str, Network]) -> dict[str, list[dict]]:
    """Return the firewalls in effect by network; `found` are the networks in effect.

    A firewall has `namespace`, `workloads` and `rules` in their order: `allow`, `ports`, and `targets` (CIDRs) or
    `dns_name`, whose addresses hosts find out.
    """
    result: dict[str, list[dict]] = {}
    nodes = NodeAddresses(snapshot)
    for firewall, network, workloads in _in_effect(snapshot, found, EGRESS_FIREWALL):
        result.setdefault(network.name, []).append(
            {
                "namespace": firewall.namespace,
                "workloads": [workload_key(workload) for workload in workloads],
                **acl_logging(snapshot.objects[f"Namespace/{firewall.namespace}"]),
                "rules": [
                    {
                        "allow": rule["type"] == "Allow",
                        **_destination(nodes, rule),
                        "ports": rule["ports"],
                    }
                    for rule in firewall.spec["egress"]
                ],
            }
        )
    return result


def _destination(nodes: NodeAddresses, rule: dict) -> dict:
    if rule.get("dnsName"):
        return {"targets": [], "dns_name": rule["dnsName"]}
    return {"targets": [rule["cidr"]] if rule["cidr"] else [*nodes.of(rule["nodeSelector"])]}


def egress_qos(snapshot: Snapshot, found: dict[str, Network]) -> list[dict]:
    """Return the EgressQoS in effect: `namespace` and `rules` in their order, with `dscp`, `target` and `workloads`."""
    return [
        {
            "namespace": entry.namespace,
            "rules": [
                {
                    "dscp": rule["dscp"],
                    "target": rule["dstCIDR"],
                    "workloads": [
                        workload_key(workload) for workload in workloads
                        if matches(rule["podSelector"], workload.labels)
                    ],
                }
                for rule in entry.spec["egress"]
            ],
        }
        for entry, network, workloads in _in_effect(snapshot, found, EGRESS_QOS)
        if network.is_default
    ]  # fmt: skip


def _in_effect(
    snapshot: Snapshot, found: dict[str, Network], kind: str
) -> Iterable[tuple[StoredObject, Network, list[StoredObject]]]:
    """Yield the objects of a kind with their network and the workloads of their namespace there."""
    entries = snapshot.of_kind(kind)
    if not entries:
        return
    attachments, by_namespace = Attachments(found), {}
    for workload in running_workloads(snapshot):
        by_namespace.setdefault(workload.namespace, []).append(workload)
    for entry in entries:
        network = policy_network(snapshot, entry, attachments)
        if network is not None and not without_ovn(snapshot, entry.namespace, network):
            there = by_namespace.get(entry.namespace, ())
            yield entry, network, [one for one in there if primary_network(one, attachments) == network]


def update_egress_rules(snapshot: Snapshot, now: str) -> None:
    """Write the status of every EgressFirewall and EgressQoS."""
    entries = snapshot.of_kind(EGRESS_FIREWALL, EGRESS_QOS)
    if not entries:
        return
    attachments = Attachments(networks(snapshot))
    for entry in entries:
        condition = _condition(snapshot, entry, policy_network(snapshot, entry, attachments))
        snapshot.objects[entry.key] = with_acceptance(entry, [condition], now)


def _condition(snapshot: Snapshot, entry: StoredObject, network: Network | None) -> dict:
    if network is None:
        message = f"namespace {entry.namespace} is labelled for a primary network and has none that can be used"
        return described(ACCEPTED, FALSE, "PrimaryNetworkMissing", message)
    if reason := without_ovn(snapshot, entry.namespace, network):
        message = f"it applies to networks of OVN only, and {reason}"
        return described(ACCEPTED, FALSE, "NetworkNotSupported", message)
    if entry.kind == EGRESS_QOS and not network.is_default:
        message = (
            f"it applies to the default network only, and {entry.namespace} has the primary network {network.name}"
        )
        return described(ACCEPTED, FALSE, "NetworkNotSupported", message)
    return described(ACCEPTED, TRUE, "Accepted", f"in effect on {network.name}")
