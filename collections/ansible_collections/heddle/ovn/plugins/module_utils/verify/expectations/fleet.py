# SPDX-License-Identifier: Apache-2.0
"""The expectations of all hosts together, computed once for an evaluation. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .expectation import Pair, askers, pairs_of
from .external_expectations import flows_and_untested
from .external_flow import ExternalFlow
from .pools import with_pools
from .selection import ALL, Chosen, Groups, Selection
from .service_endpoints import Untested


@dataclass(frozen=True)
class FleetExpectations:
    """All pairs and north-south flows of a plan, and the selection that chose them.

    `plan` has workloads of address pools as well. `chosen` are the classes of pairs, also where all pairs are tested.
    `untested` are the ports of Services that nothing is sent to.
    """

    plan: dict
    external: dict[str, list[str]]
    selection: Selection
    groups: Groups
    chosen: list[Chosen]
    pairs: list[Pair]
    flows: list[ExternalFlow]
    untested: list[Untested]

    @classmethod
    def of(cls, plan: dict, external: dict[str, list[str]], selection: Selection) -> FleetExpectations:
        """Return those of a plan; `external` has the addresses of external hosts by name."""
        plan = with_pools(plan)
        groups = Groups(askers(plan), selection)
        chosen = groups.chosen()
        pairs = pairs_of(plan, None if selection.pairs == ALL else chosen)
        flows, untested = flows_and_untested(plan, external, None, selection)
        return cls(plan, external, selection.seeded(plan), groups, chosen, pairs, flows, untested)

    def rows(self) -> dict[str, list[Pair | ExternalFlow]]:
        """Return by host what it asks, in the order in which it computes it for itself alone."""
        found: dict[str, list[Pair | ExternalFlow]] = {name: [] for name in (*self.plan["nodes"], *self.external)}
        for pair in self.pairs:
            found[self.plan["workloads"][pair.source]["node"]].append(pair)
        for flow in self.flows:
            found[flow.runner].append(flow)
        return found
