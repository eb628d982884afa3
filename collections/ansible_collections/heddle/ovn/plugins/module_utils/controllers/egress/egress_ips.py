# SPDX-License-Identifier: Apache-2.0
"""EgressIPs: the host of each address, and the workloads that leave with it.

`status.items` is the assignment, as ovn-kubernetes writes it; it is also what the next one keeps as far as possible.
`status.egressIP` of a workload is the EgressIP that it leaves with, or did last, which the next decision keeps, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_interface

from ...api import LabelledNames, matches
from ...common.addressing import family
from ...common.naming import PRIMARY_NETWORK_LABEL
from ...store.snapshot import Snapshot, StoredObject
from ..admission.host_addresses import reserved_addresses
from ..allocation.pools import Pool, numbers
from ..network.attachment import Attachments, workload_key
from ..network.networks import Network, namespace_labels, networks, running_workloads
from ..node_labels import EGRESS_SERVICE
from .egress_assignment import ASSIGNABLE_LABEL, Assignment, Host, assigned
from .precedence import EGRESS_IP_IN_EFFECT, in_effect, remembered, store_in_effect

EGRESS_IP = "EgressIP"
MARK_POOL = "egressip-mark"
# The marks of packets that leave with an address (ovn-kubernetes, `k8s.ovn.org/egressip-mark`).
MARKS = (50000, 55000)


def egress_mark_pool(snapshot: Snapshot) -> Pool:
    """Return the pool of marks, one for each EgressIP, and for each EgressService of a user-defined network."""
    owners = {entry.name: entry.key for entry in snapshot.of_kind(EGRESS_IP)}
    for entry in snapshot.of_kind(EGRESS_SERVICE):
        # On the default network the host's kernel translates, by the addresses of workloads.
        if PRIMARY_NETWORK_LABEL in snapshot.objects[f"Namespace/{entry.namespace}"].labels:
            owners[f"{entry.namespace}/{entry.name}"] = entry.key
    holds = f"marks of egress addresses {MARKS[0]} to {MARKS[1]}"
    return Pool(MARK_POOL, holds, "put addresses of several objects into one", numbers(*MARKS), owners)


def assign_egress_ips(
    snapshot: Snapshot, live: Collection[str] | None, kept: Mapping[str, str]
) -> tuple[Assignment, EgressSelection]:  # fmt: skip
    """Store in each EgressIP which host has which of its addresses, and in workloads which EgressIP is in effect.

    Return the assignment, with what has no host and why, and the workloads of each. `live` are the hosts that may hold
    addresses, None for all of the inventory; `kept` as for `assigned`.
    """
    entries = snapshot.of_kind(EGRESS_IP)
    found = Assignment()
    if entries:
        found = assigned(
            {entry.name: entry.spec["egressIPs"] for entry in entries},
            [host for host in map(_host, snapshot.of_kind("Node")) if host and (live is None or host.name in live)],
            reserved_addresses(snapshot),
            {entry.name: holders(entry) for entry in entries},
            kept,
        )
    for entry in entries:
        items = [{"egressIP": address, "node": node} for address, node in found.holders[entry.name].items()]
        snapshot.objects[entry.key] = entry.with_status(items=items)
    selection = EgressSelection(snapshot, networks(snapshot))
    store_in_effect(snapshot, EGRESS_IP_IN_EFFECT, selection.remembered)
    return found, selection


def holders(entry: StoredObject) -> dict[str, str]:
    """Return the host of each address of an EgressIP that has one."""
    return {item["egressIP"]: item["node"] for item in entry.status.get("items", ())}


def _host(node: StoredObject) -> Host | None:
    gateway = node.spec.get("gateway")
    if ASSIGNABLE_LABEL not in node.spec.get("labels", {}) or not gateway or not node.spec.get("chassis"):
        return None
    return _networks_of(node)


def _networks_of(node: StoredObject) -> Host:
    subnets = {str(ip_interface(address).network) for address in node.spec["gateway"]["addresses"]}
    others = {
        (name, str(ip_interface(address).network))
        for name, addresses in (node.spec.get("other_addresses") or {}).items()
        for address in addresses
    }
    return Host(node.name, tuple(sorted(subnets)), tuple(sorted(others)))


def held_on(snapshot: Snapshot, entry: StoredObject) -> dict[str, str]:
    """Return the NIC of the holder that each address of an EgressIP is on; "" stands for the provider bridge."""
    found = {}
    for address, name in holders(entry).items():
        node = snapshot.objects.get(f"Node/{name}")
        nic = _networks_of(node).nic(address) if node and node.spec.get("gateway") else None
        found[address] = nic or ""
    return found


class EgressSelection:
    """The workloads of each EgressIP, by network; `found` are the networks in effect.

    Of several that select a workload and have an address for it on a host, one is in effect (`precedence.py`).
    """

    def __init__(self, snapshot: Snapshot, found: dict[str, Network]) -> None:
        self.found = found
        self.workloads: dict[str, dict[str, list[str]]] = {}
        # By workload (`namespace/name`) the one that is in effect.
        self.owners: dict[str, str] = {}
        # These, and the last ones of workloads of which none is.
        self.remembered: dict[str, str] = {}
        # By object the workloads that it selects too and that belong to another one.
        self.elsewhere: dict[str, dict[str, str]] = {}
        # By object the networks of workloads that it selects and that leave with the address of their host.
        self.on_mesh: dict[str, set[str]] = {}
        # By object the networks of workloads that it selects and has no address for, in the order of the workloads.
        self.unusable: dict[str, dict[str, None]] = {}
        # By workload its network, of those that any of them has an address for.
        self.network_names: dict[str, str] = {}
        entries = snapshot.of_kind(EGRESS_IP)
        if not entries:
            return
        attachments = Attachments(found)
        namespaces = LabelledNames({entry.name: namespace_labels(entry) for entry in snapshot.of_kind("Namespace")})
        by_namespace: dict[str, list[StoredObject]] = {}
        for workload in running_workloads(snapshot):
            by_namespace.setdefault(workload.namespace, []).append(workload)
        selected: dict[str, list[StoredObject]] = {}
        without_host: dict[str, list[StoredObject]] = {}
        for entry in entries:
            chosen, held = namespaces.selected(entry.spec["namespaceSelector"]), held_on(snapshot, entry)
            for workload in (one for name in chosen for one in by_namespace.get(name, ())):
                if not matches(entry.spec["podSelector"], workload.labels):
                    continue
                network = primary_network(workload, attachments)
                if network is not None and network.is_mesh:
                    self.on_mesh.setdefault(entry.name, set()).add(network.name)
                elif network is not None and _has_address_for(network, held):
                    selected.setdefault(entry.name, []).append(workload)
                    self.network_names[workload_key(workload)] = network.name
                elif network is not None:
                    without_host.setdefault(entry.name, []).append(workload)
                    if held:
                        self.unusable.setdefault(entry.name, {})[network.name] = None
        self.owners = in_effect(selected, EGRESS_IP_IN_EFFECT)
        self.remembered = remembered(self.owners, without_host, EGRESS_IP_IN_EFFECT)
        for entry in entries:
            own = self.workloads.setdefault(entry.name, {})
            for key in map(workload_key, selected.get(entry.name, ())):
                if self.owners[key] == entry.name:
                    own.setdefault(self.network_names[key], []).append(key)
                else:
                    self.elsewhere.setdefault(entry.name, {})[key] = self.owners[key]

    def networks(self, name: str) -> list[str]:
        """Return the networks of the workloads of an EgressIP."""
        return list(self.workloads.get(name, {}))


def _has_address_for(network: Network, held: dict[str, str]) -> bool:
    """Return whether workloads of a network can leave with one of these addresses, which have their NICs.

    Those of user-defined networks leave by the provider bridge only.
    """
    return bool(usable_families(network, held))


def usable_families(network: Network, held: dict[str, str]) -> set[int]:
    """Return the families in which workloads of a network can leave with one of these addresses."""
    usable = {family(address) for address, nic in held.items() if network.is_default or not nic}
    return usable & set(network.families)


def primary_network(workload: StoredObject, attachments: Attachments) -> Network | None:
    """Return the network that a workload leaves through; None for one that has none."""
    used = [one.network for one in attachments.of(workload) if one.network.role == "Primary"]
    # The last one: on the default network a workload with another primary network is locked.
    return used[-1] if used else None
