# SPDX-License-Identifier: Apache-2.0
"""Policies of namespaces: the networks that each is about, the workloads that it selects, and its status.

A NetworkPolicy applies to the workloads of its namespace on their primary network, a MultiNetworkPolicy to those on the
secondary networks that its annotation names. Peers are workloads on the same network too: another network's workloads
cannot be reached, whatever their labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from ...api import POLICY_FOR
from ...common.naming import PRIMARY_NETWORK_LABEL, nad_key
from ...store.snapshot import Snapshot, StoredObject
from ..coil.membership import pool_of, pools_of_namespaces
from ..conditions import ACCEPTED, FALSE, PARTIAL_FAILURE, TRUE, described, with_conditions
from ..kind_names import ADMIN_KINDS
from ..network.attachment import Attachments, workload_key
from ..network.networks import Network, networks, running_workloads
from ..node_addresses import NodeAddresses
from ..node_conditions import with_acceptance
from .admin_policies import AdminPolicies, admin_conditions
from .policy_resolver import NetworkPolicies, PolicyResolver

NETWORK_POLICY, MULTI_NETWORK_POLICY = "NetworkPolicy", "MultiNetworkPolicy"
POLICY_KINDS = (NETWORK_POLICY, MULTI_NETWORK_POLICY)

# Why a policy has no effect on a network: the reason of its condition, and the message.
_Refusal = tuple[str, str]


def resolved_policies(snapshot: Snapshot, found: dict[str, Network]) -> dict[str, NetworkPolicies]:
    """Return the policies in effect by network; `found` are the networks in effect (`networks`)."""
    attachments = Attachments(found)
    by_network: dict[str, list[StoredObject]] = {}
    for policy in snapshot.of_kind(*POLICY_KINDS):
        for network in _networks_of(snapshot, policy, attachments)[0]:
            by_network.setdefault(network.name, []).append(policy)
    admin = AdminPolicies(snapshot)
    if not by_network and not admin:
        return {}
    nodes = NodeAddresses(snapshot)
    on, result = _workloads_by_network(snapshot, attachments), {}
    of_ovn = [name for name in on if not found[name].is_mesh]
    for name in sorted({*by_network, *(of_ovn if admin else ())}):
        policies, workloads = by_network.get(name, ()), on.get(name, [])
        resolver = PolicyResolver(snapshot, workloads, nodes, _unaddressed(workloads, found[name], attachments))
        # Those of the cluster are about primary networks, as the selectors of pods are.
        resolved = resolver.resolved(policies, admin.of(workloads) if _is_primary(found[name]) else ())
        if resolved.policies or resolved.admin:
            result[name] = resolved
    return result


def policy_network(snapshot: Snapshot, policy: StoredObject, attachments: Attachments) -> Network | None:
    """Return the primary network of an object's namespace. None while the namespace has none."""
    primary = attachments.primary(policy)
    if primary is not None:
        return primary
    labelled = PRIMARY_NETWORK_LABEL in snapshot.objects[f"Namespace/{policy.namespace}"].labels
    return None if labelled else attachments.default


def without_ovn(snapshot: Snapshot, namespace: str, network: Network) -> str:
    """Return why nothing of OVN applies to the workloads of a namespace; "" where it does.

    `network` is the primary one of the namespace.
    """
    if network.is_mesh:
        return f"{network.name} is a MeshNetwork"
    pool = pool_of(snapshot.objects[f"Namespace/{namespace}"], snapshot.settings)
    return f"namespace {namespace} has its addresses of pool {pool}" if pool else ""


def update_policies(snapshot: Snapshot, now: str) -> None:
    """Write the status of every policy."""
    entries = snapshot.of_kind(*POLICY_KINDS, *ADMIN_KINDS)
    if not entries:
        return
    found = networks(snapshot)
    attachments, resolved = Attachments(found), resolved_policies(snapshot, found)
    subjects = {
        network: {(policy["kind"], policy["name"]): policy["subjects"] for policy in on.policies}
        for network, on in resolved.items()
    }
    for policy in snapshot.of_kind(*POLICY_KINDS):
        in_effect, refusals = _networks_of(snapshot, policy, attachments)
        there = {network.name: resolved[network.name] for network in in_effect}
        has_subjects = any(
            on.selections[subjects[name][policy.kind, workload_key(policy)]] for name, on in there.items()
        )
        conditions = list(_conditions(policy, there, refusals, has_subjects))
        snapshot.objects[policy.key] = with_conditions(policy, conditions, now)
    for policy, conditions in admin_conditions(snapshot, resolved, _without_effect(snapshot, found, attachments)):
        snapshot.objects[policy.key] = with_acceptance(policy, conditions, now)


def _networks_of(
    snapshot: Snapshot, policy: StoredObject, attachments: Attachments
) -> tuple[list[Network], list[_Refusal]]:
    """Return the networks that a policy has an effect on, and why it has none on others that it names."""
    if policy.kind == NETWORK_POLICY:
        network = policy_network(snapshot, policy, attachments)
        if network is not None:
            reason = without_ovn(snapshot, policy.namespace, network)
            return ([], [_not_of_ovn(reason)]) if reason else ([network], [])
        message = f"namespace {policy.namespace} is labelled for a primary network and has none that can be used"
        return [], [("PrimaryNetworkMissing", message)]
    if not policy.spec["policyFor"]:
        return [], [("NetworkMissing", f"the annotation {POLICY_FOR} names no network")]
    found: dict[str, Network] = {}
    refusals: list[_Refusal] = []
    for one in policy.spec["policyFor"]:
        nad = nad_key(one["namespace"] or policy.namespace, one["name"])
        network = attachments.defined(nad)
        refusal = _refusal(policy, nad, network)
        if refusal:
            refusals.append(refusal)
        elif network:
            found[network.name] = network
    return list(found.values()), refusals


def _refusal(policy: StoredObject, nad: str, network: Network | None) -> _Refusal | None:
    if network is None:
        return "NetworkMissing", f"there is no network attachment definition {nad} of a network in effect"
    if network.is_mesh:
        return _not_of_ovn(f"{network.name} is a MeshNetwork")
    if network.role != "Secondary":
        return "NetworkNotSupported", f"{nad} is a primary network: write a NetworkPolicy"
    peers = [peer for direction in ("ingress", "egress") for rule in policy.spec[direction] for peer in rule["peers"]]
    if not network.has_ipam and any(peer["ipBlock"] is None for peer in peers):
        # The words of ovn-kubernetes: it does not know the addresses of workloads there.
        return "PeerNotSupported", f"{nad}: IPAM-less networks can only have `ipBlock` peers"
    return None


def _not_of_ovn(reason: str) -> _Refusal:
    return "NetworkNotSupported", f"{reason}, and policies apply to networks of OVN only"


def _conditions(
    policy: StoredObject, there: dict[str, NetworkPolicies], refusals: list[_Refusal], has_subjects: bool
) -> Iterator[dict]:
    failures = list(refusals)
    if not there:
        yield described(ACCEPTED, FALSE, refusals[0][0], "; ".join(message for _reason, message in refusals))
        return
    empty = "" if has_subjects else "; podSelector selects no workload"
    yield described(ACCEPTED, TRUE, "Accepted", f"in effect on {', '.join(there)}{empty}")
    missing = dict.fromkeys(port for on in there.values() for port in on.missing.get(policy.key, ()))
    if missing:
        message = f"no workload has such a port, so nothing is allowed for it: {', '.join(missing)}"
        failures.append(("NamedPortNotFound", message))
    unaddressed = dict.fromkeys(port for on in there.values() for port in on.unaddressed.get(policy.key, ()))
    if unaddressed:
        message = (
            "nothing is allowed to these ports of workloads whose addresses are not known, on a network without IPAM "
            f"and without `ips` in their annotation: {', '.join(unaddressed)}"
        )
        failures.append(("NamedPortNotSupported", message))
    if failures:
        message = "; ".join(message for _reason, message in failures)
        yield described(PARTIAL_FAILURE, TRUE, failures[0][0], message)


def _without_effect(
    snapshot: Snapshot, found: dict[str, Network], attachments: Attachments
) -> dict[tuple[str, str], list]:  # fmt: skip
    """Return by kind and name of a policy of the cluster where else it selects workloads.

    Those are the networks of the mesh, and address pools, on which it has no effect.
    """
    admin, selected = AdminPolicies(snapshot), {}
    if not admin:
        return selected
    on, nodes = _workloads_by_network(snapshot, attachments), NodeAddresses(snapshot)
    places = {name: workloads for name, workloads in on.items() if found[name].has_host_gateway}
    pools = pools_of_namespaces(snapshot)
    for workload in running_workloads(snapshot) if pools else ():
        if workload.namespace in pools:
            places.setdefault(f"pool {pools[workload.namespace]}", []).append(workload)
    for place, workloads in places.items():
        resolved = PolicyResolver(snapshot, workloads, nodes).resolved((), admin.of(workloads))
        for entry in resolved.admin:
            if resolved.selections[entry["subjects"]]:
                selected.setdefault((entry["kind"], entry["name"]), []).append(place)
    return selected


def _unaddressed(workloads: list[StoredObject], network: Network, attachments: Attachments) -> Set[str]:
    """Return the workloads with an interface on a network of which no address is known: without IPAM or a request."""
    if network.has_ipam:
        return frozenset()
    return {
        workload_key(workload)
        for workload in workloads
        if any(one.network.name == network.name and not one.addresses for one in attachments.of(workload))
    }


def _is_primary(network: Network) -> bool:
    return network.role == "Primary"


def _workloads_by_network(snapshot: Snapshot, attachments: Attachments) -> dict[str, list[StoredObject]]:
    """Return the workloads by the networks that they are on, the default one only where it is their primary one."""
    found: dict[str, list[StoredObject]] = {}
    for workload in running_workloads(snapshot):
        used = [one.network for one in attachments.of(workload)]
        primary = [network.name for network in used if _is_primary(network)]
        # The last one: on the default network a workload with another primary network is locked.
        others = (network.name for network in used if not _is_primary(network))
        for name in dict.fromkeys([*primary[-1:], *others]):
            found.setdefault(name, []).append(workload)
    return found
