# SPDX-License-Identifier: Apache-2.0
"""The addresses that external hosts must see workloads as, from the EgressIPs and EgressServices of the plan. Pure.

Like `policy_permissions.py` it reads the plan and none of the rows and flows that are rendered of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...common.addressing import family
from ...common.naming import DEFAULT_NETWORK
from ...render.common.provider import Provider, provider_of


class EgressAddresses:
    """Who leaves with which addresses, and by which hosts."""

    def __init__(self, plan: dict) -> None:
        self._nodes = plan["nodes"]
        # User-defined networks do not leave by other NICs.
        self._of: dict[str, list[dict]] = {
            workload: [one for one in entry["addresses"] if network == DEFAULT_NETWORK or "nic" not in one]
            for entry in plan.get("egress_ips", {}).values()
            for network, workloads in entry["workloads"].items()
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

        Nothing for a workload that leaves with the address of its own node, or `by_nic` only. An EgressService comes
        before an EgressIP.
        """
        for known in (self._by_service, self._of):
            found = {
                one["address"]: provider_of(self._nodes[one["node"]])
                for one in known.get(workload, ())
                if family(one["address"]) == version and one["node"] in self._nodes and "nic" not in one
            }
            able = {address: provider for address, provider in found.items() if provider is not None}
            if able:
                return able
        return {}

    def holder(self, workload: str, version: int) -> str:
        """Return the one node by which a workload leaves with an EgressIP, "" for none, several and EgressServices."""
        own = [one for one in self._of.get(workload, ()) if family(one["address"]) == version]
        nodes = {one["node"] for one in own}
        is_plain = workload not in self._by_service and not any("nic" in one for one in own)
        return nodes.pop() if is_plain and len(nodes) == 1 and self.of(workload, version) else ""

    def has_table(self, workload: str) -> bool:
        """Return whether a routing table, which the plan does not have, decides by which way a workload leaves."""
        return workload in self._tables

    def by_nic(self, workload: str, version: int) -> bool:
        """Return whether a workload leaves through another NIC than the uplink, to a network that is not known."""
        by_service = any(family(one["address"]) == version for one in self._by_service.get(workload, ()))
        by_nic = any(family(one["address"]) == version and "nic" in one for one in self._of.get(workload, ()))
        return by_nic and not by_service

    def untested(self) -> list[str]:
        """Return a line for each EgressService whose routing table decides, and each address on another NIC."""
        nics = {
            f"{one['address']}: packets that leave through {one['nic']} of {one['node']} are not tested"
            for addresses in self._of.values()
            for one in addresses
            if "nic" in one
        }
        return [
            *(
                f"{name}: what its endpoints send to external hosts is routed by table {table}, which is not tested"
                for name, table in sorted(set(self._tables.values()))
            ),
            *sorted(nics),
        ]


def _services(plan: dict) -> Iterator[tuple[str, dict]]:
    for entries in plan.get("egress_services", {}).values():
        yield from entries.items()
