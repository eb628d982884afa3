# SPDX-License-Identifier: Apache-2.0
"""How a workload resolves names: search domains and name servers, with the setting `cluster_domain`.

The search domains are those of Kubernetes' DNS policy ClusterFirst. Its option `ndots:5` is left out: OVN has the names
with one dot as well, and a name that OVN does not have would be asked for in each domain first.
"""

from __future__ import annotations

from collections.abc import Collection

from ...common.addressing import family

_NAME_SERVICE = "kube-system/kube-dns"


def search_domains(settings: dict, namespace: str) -> list[str]:
    """Return the domains in which short names of a namespace's workloads are looked up; none without the setting."""
    domain = settings.get("cluster_domain")
    return [f"{namespace}.svc.{domain}", f"svc.{domain}", domain] if domain else []


def name_servers(plan: dict, node: str, versions: Collection[int], gateways: list[str]) -> list[str]:
    """Return the servers that a workload with addresses of some IP versions asks, those of IPv4 first.

    The cluster's DNS where it is a shared service, else those of the node, which are three at most. OVN answers for its
    own names on the way to any server, so without one it is the gateways, which have no answer for other names.
    """
    services = plan["settings"].get("shared_services", [])
    shared = [one["address"] for one in services if one["name"] == _NAME_SERVICE]
    known = shared or plan["nodes"][node].get("name_servers", [])
    found = [address for version in (4, 6) if version in versions for address in known if family(address) == version]
    return found or (gateways if plan["settings"].get("cluster_domain") else [])
