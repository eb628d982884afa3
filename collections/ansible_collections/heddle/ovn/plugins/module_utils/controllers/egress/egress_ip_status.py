# SPDX-License-Identifier: Apache-2.0
"""The condition of EgressIPs: whether each address has a host, and the workloads that leave with it.

ovn-kubernetes has only `status.items`, and events; the condition has the reasons of these.
"""

from __future__ import annotations

from ...common.addressing import family
from ...common.text.some_of import some_of
from ...store.snapshot import Snapshot, StoredObject
from ..conditions import FALSE, TRUE, described, with_conditions
from ..services.service_endpoints import ServiceEndpoints
from .egress_assignment import Assignment
from .egress_ips import EGRESS_IP, EgressSelection, held_on, holders, usable_families
from .egress_services import EgressServiceSelection

ASSIGNED = "Assigned"


def update_egress_ips(snapshot: Snapshot, assignment: Assignment, selection: EgressSelection, now: str) -> None:
    """Write the conditions of every EgressIP, of what `assign_egress_ips` returned; EgressServices have their hosts."""
    entries = snapshot.of_kind(EGRESS_IP)
    if not entries:
        return
    services = EgressServiceSelection(snapshot, ServiceEndpoints(snapshot, selection.found))
    for entry in entries:
        nics = held_on(snapshot, entry)
        by_service = _by_services(entry.name, nics, selection, services)
        condition = _condition(entry, assignment.failures[entry.name], selection, nics, by_service)
        snapshot.objects[entry.key] = with_conditions(entry, [condition], now)


def _by_services(
    name: str, nics: dict[str, str], selection: EgressSelection, services: EgressServiceSelection
) -> dict[str, str]:
    """Return which workloads leave by an EgressService in every family in which the EgressIP has an address for them.

    An EgressService comes before an EgressIP in the families of its addresses (`render/common/egress_services.py`).
    """
    workloads = [key for keys in selection.workloads[name].values() for key in keys]
    found = {}
    for key in (*workloads, *selection.elsewhere.get(name, ())):
        service = services.owners.get(key)
        families = usable_families(selection.found[selection.network_names[key]], nics)
        if service and families <= services.families.get(service, set()):
            found[key] = service
    return found


def _condition(
    entry: StoredObject,
    failures: list[tuple[str, str]],
    selection: EgressSelection,
    nics: dict[str, str],
    by_service: dict[str, str],
) -> dict:
    if failures:
        return described(ASSIGNED, FALSE, failures[0][0], "; ".join(dict.fromkeys(one[1] for one in failures)))
    elsewhere = selection.elsewhere.get(entry.name, {})
    names = [f"{workload} has that of {other}" for workload, other in elsewhere.items() if workload not in by_service]
    if names:
        message = f"a workload leaves with one EgressIP only: {', '.join(sorted(names))}"
        return described(ASSIGNED, FALSE, "WorkloadInUse", message)
    on_mesh = selection.on_mesh.get(entry.name)
    if on_mesh:
        message = f"workloads of a MeshNetwork leave with the address of their host: {', '.join(sorted(on_mesh))}"
        return described(ASSIGNED, FALSE, "NetworkNotSupported", message)
    names = [*selection.networks(entry.name), *selection.unusable.get(entry.name, ())]
    apart = [address for address, nic in nics.items() if nic]
    defined = [name for name in names if not selection.found[name].is_default]
    if apart and defined:
        # The error of ovn-kubernetes (`getNextHop`).
        message = (
            "egress IP assigned to a host secondary interface for a user defined network "
            f"(network name {', '.join(defined)}) is unsupported: {', '.join(apart)}"
        )
        return described(ASSIGNED, FALSE, "NetworkNotSupported", message)
    families = {family(address) for address in holders(entry)}
    lacking = [name for name in names if families.isdisjoint(selection.found[name].families)]
    if lacking:
        return described(ASSIGNED, FALSE, "IPFamilyNotOnNetwork", f"no address of a family of {', '.join(lacking)}")
    leaving = [one for keys in selection.workloads[entry.name].values() for one in keys if one not in by_service]
    message = f"workloads that leave with these addresses: {len(leaving)}"
    if by_service:
        names = [f"{workload} by {service}" for workload, service in sorted(by_service.items())]
        message += f"; by an EgressService instead: {len(names)}, {some_of(names)}"
    return described(ASSIGNED, TRUE, "Assigned", message)
