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


def name_servers(plan: dict, node: str, version: int) -> list[str]:
    """Return the servers for other names: the cluster's DNS where it is a shared service, else those of the node.

    Only addresses of IP version `version`; a node has three at most. OVN answers for its own names on the way to any
    server.
    """
    services = plan["settings"].get("shared_services", [])
    shared = [one["address"] for one in services if one["name"] == _NAME_SERVICE]
    found = shared or plan["nodes"][node].get("name_servers", [])
    return [address for address in found if family(address) == version]
