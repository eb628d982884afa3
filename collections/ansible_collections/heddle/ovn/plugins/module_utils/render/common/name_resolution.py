# SPDX-License-Identifier: Apache-2.0
"""How a workload resolves names: search domains and name servers, with the setting `cluster_domain`.

The search domains are those of Kubernetes' DNS policy ClusterFirst. Its option `ndots:5` is left out: OVN has the names
with one dot as well, and a name that OVN does not have would be asked for in each domain first.
"""

from __future__ import annotations

from ...common.addressing import family

_NAME_SERVICE = "kube-system/kube-dns"


def search_domains(settings: dict, namespace: str) -> list[str]:
    """Return the domains in which short names of a namespace's workloads are looked up; none without the setting."""
    domain = settings.get("cluster_domain")
    return [f"{namespace}.svc.{domain}", f"svc.{domain}", domain] if domain else []


def shared_name_server(settings: dict, version: int) -> str | None:
    """Return the address of the cluster's DNS where it is a shared service, by IP version."""
    found = (
        service["address"]
        for service in settings.get("shared_services", [])
        if service["name"] == _NAME_SERVICE and family(service["address"]) == version
    )
    return next(found, None)
