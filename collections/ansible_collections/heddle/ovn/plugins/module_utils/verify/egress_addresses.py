# SPDX-License-Identifier: Apache-2.0
"""The addresses that external hosts must see workloads as, from the EgressIPs of the plan. Pure.

Like `policy_permissions.py` it reads the plan and none of the rows and flows that are rendered of it.
"""

from __future__ import annotations

from ..common.addressing import family
from ..render.common.provider import Provider, provider_of


class EgressAddresses:
    """Who leaves with which addresses, and by which hosts."""

    def __init__(self, plan: dict) -> None:
        self._nodes = plan["nodes"]
        self._of: dict[str, list[dict]] = {
            workload: entry["addresses"]
            for entry in plan.get("egress_ips", {}).values()
            for workloads in entry["workloads"].values()
            for workload in workloads
        }

    def of(self, workload: str, version: int) -> dict[str, Provider]:
        """Return the addresses of a family that a workload leaves with, each with its holder's connection.

        Nothing for a workload that leaves with the address of its own node.
        """
        found = {
            one["address"]: provider_of(self._nodes[one["node"]])
            for one in self._of.get(workload, ())
            if family(one["address"]) == version and one["node"] in self._nodes
        }
        return {address: provider for address, provider in found.items() if provider is not None}
