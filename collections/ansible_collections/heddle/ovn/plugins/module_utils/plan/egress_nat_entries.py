# SPDX-License-Identifier: Apache-2.0
"""The plan's part about Egress: gateways with the addresses of their routers, and workloads that are on a tunnel."""

from __future__ import annotations

from ..common.addressing import plain
from ..controllers.coil.egress_clients import selected_egresses
from ..controllers.coil.egress_routers import egress_of
from ..controllers.network.networks import running_workloads
from ..controllers.services.cluster_ips import EGRESS, cluster_ip_pool
from ..store.settings import ORIGINATING_ONLY
from ..store.snapshot import Snapshot

# The port of FoU, and its source port where the kernel does not choose one for each flow.
_FIXED_PORT = 5555


def egress_nat_entries(snapshot: Snapshot, plan: dict) -> dict:
    """Return `egress`, nothing as long as there are no Egress objects; `plan` has the addresses of workloads."""
    egresses = snapshot.of_kind(EGRESS)
    if not egresses:
        return {}
    gateways = {
        f"{egress.namespace}/{egress.name}": {
            "destinations": egress.spec["destinations"],
            "source_port": 0 if egress.spec["fouSourcePortAuto"] else _FIXED_PORT,
            "affinity": egress.spec["affinity"],
            "addresses": [
                address for version in (4, 6) if (address := snapshot.get(cluster_ip_pool(version), egress.key))
            ],
        }
        for egress in egresses
    }
    workloads = {}
    for workload in running_workloads(snapshot):
        selected = [name for name in selected_egresses(workload) if name in gateways]
        router = egress_of(workload)
        if not selected and not router:
            continue
        key = f"{workload.namespace}/{workload.name}"
        where = plan["workloads"].get(key) or plan.get("coil", {}).get("workloads", {})[key]
        workloads[key] = {
            "node": where["node"],
            "namespace": workload.namespace,
            "name": workload.name,
            "addresses": [plain(text) for text in _addresses(where)],
            **({"router_of": router} if router else {}),
            **({"egresses": selected} if selected else {}),
        }
    only = {"originating_only": True} if snapshot.settings.get(ORIGINATING_ONLY) else {}
    return {"egress": {"gateways": gateways, "workloads": workloads, **only}}


def _addresses(workload: dict) -> list[str]:
    """Return the addresses of eth0, with or without prefix length."""
    return workload["interfaces"][0]["addresses"] if "interfaces" in workload else workload["addresses"]
