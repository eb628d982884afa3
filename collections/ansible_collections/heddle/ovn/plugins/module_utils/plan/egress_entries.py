# SPDX-License-Identifier: Apache-2.0
"""The plan's entry for each EgressIP and EgressService: hosts of addresses, the mark of packets, and the workloads."""

from __future__ import annotations

from ..api.services.external_access import LOCAL
from ..common.addressing import family
from ..controllers.egress.egress_ips import EGRESS_IP, MARK_POOL, EgressSelection, held_on, holders
from ..controllers.egress.egress_services import ALL_HOSTS, EgressServiceSelection
from ..controllers.node_labels import EGRESS_SERVICE
from ..controllers.services.cluster_ips import SERVICE, cluster_ips
from ..controllers.services.load_balancers import announcers
from ..controllers.services.local_ports import local_ports
from ..controllers.services.node_ports import node_ports
from ..store.snapshot import Snapshot, StoredObject


def egress_ip_entries(snapshot: Snapshot, selection: EgressSelection) -> dict[str, dict]:
    """Return the EgressIPs by name; `selection` has their workloads. One without any host is left out."""
    return {
        entry.name: {
            "mark": int(snapshot.get(MARK_POOL, entry.name)),
            "addresses": _addresses(snapshot, entry),
            "workloads": selection.workloads[entry.name],
        }
        for entry in snapshot.of_kind(EGRESS_IP)
        if holders(entry)
    }


def _addresses(snapshot: Snapshot, entry: StoredObject) -> list[dict]:
    """Return each address with its host, and with `nic` where that is not the host's provider bridge."""
    nics = held_on(snapshot, entry)
    return [
        {"address": address, "node": node, **({"nic": nics[address]} if nics[address] else {})}
        for address, node in holders(entry).items()
    ]


def networks_of(entries: dict[str, dict]) -> dict[str, list[str]]:
    """Return the names of the EgressIPs by the networks of their workloads."""
    found: dict[str, list[str]] = {}
    for name, entry in entries.items():
        for network in entry["workloads"]:
            found.setdefault(network, []).append(name)
    return found


def egress_service_entries(snapshot: Snapshot, selection: EgressServiceSelection) -> dict[str, dict]:
    """Return `egress_services`: EgressServices by network and `namespace/name`; nothing where none is in effect.

    `host` is the node by which `workloads` leave with `addresses` of the load balancer, or `ALL`: by their own nodes,
    with the addresses of these. `table` is a routing table, "" for that of the host; replies of the Service's own
    addresses (`cluster_ips`) and node ports use it, too. `mark` is that of packets on a user-defined network.
    """
    entries: dict[str, dict] = {}
    for entry in snapshot.of_kind(EGRESS_SERVICE):
        name = f"{entry.namespace}/{entry.name}"
        network = selection.networks.get(name)
        if network is None or not selection.workloads.get(name):
            continue
        service, host = snapshot.objects[f"{SERVICE}/{name}"], entry.status["host"]
        mark = snapshot.get(MARK_POOL, name)
        addresses = [text for text in announcers(service) if family(text) in network.families]
        entries.setdefault(network.name, {})[name] = {
            "host": host,
            "addresses": addresses if host != ALL_HOSTS else [],
            "table": entry.spec["network"],
            "cluster_ips": [text for text in cluster_ips(snapshot, service) if family(text) in network.families],
            "node_ports": sorted({*node_ports(snapshot, service), *local_ports(snapshot, service)} - {0})
            if service.spec["externalTrafficPolicy"] == LOCAL
            else [],
            "workloads": selection.workloads[name],
            **({"mark": int(mark)} if mark and not network.is_default else {}),
        }
    return {"egress_services": entries} if entries else {}
