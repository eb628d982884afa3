# SPDX-License-Identifier: Apache-2.0
"""The addresses that external hosts must see workloads as, from the EgressIPs and EgressServices of the plan. Pure.

Like `policy_permissions.py` it reads the plan and none of the rows and flows that are rendered of it.
"""

from __future__ import annotations

from collections.abc import Iterator

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
        self._by_service: dict[str, list[dict]] = {}
        self._tables: dict[str, tuple[str, str]] = {}
        for name, entry in _services(plan):
            held = [{"address": one, "node": entry["host"]} for one in entry["addresses"]]
            for workload in entry["workloads"]:
                self._by_service[workload] = held
                if entry["table"]:
                    self._tables[workload] = name, entry["table"]

    def of(self, workload: str, version: int) -> dict[str, Provider]:
        """Return the addresses of a family that a workload leaves with, each with its holder's connection.

        Nothing for a workload that leaves with the address of its own node. An EgressService comes before an EgressIP.
        """
        for known in (self._by_service, self._of):
            found = {
                one["address"]: provider_of(self._nodes[one["node"]])
                for one in known.get(workload, ())
                if family(one["address"]) == version and one["node"] in self._nodes
            }
            able = {address: provider for address, provider in found.items() if provider is not None}
            if able:
                return able
        return {}

    def has_table(self, workload: str) -> bool:
        """Return whether a routing table, which the plan does not have, decides by which way a workload leaves."""
        return workload in self._tables

    def untested(self) -> list[str]:
        """Return a line for each EgressService whose routing table decides."""
        return [
            f"{name}: what its endpoints send to external hosts is routed by table {table}, which is not tested"
            for name, table in sorted(set(self._tables.values()))
        ]


def _services(plan: dict) -> Iterator[tuple[str, dict]]:
    for entries in plan.get("egress_services", {}).values():
        yield from entries.items()
