# SPDX-License-Identifier: Apache-2.0
"""Who must reach whom, as the plan says (OKEP-5193, "Network Segmentation"). Pure.

Two workloads reach each other on the networks that both are attached to, as far as neither's interface is locked.
Everything else must stay silent, whatever the addresses are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..addressing import family, plain

LOCKED = "infrastructure-locked"


@dataclass(frozen=True, slots=True)
class Pair:
    """One address of a target, seen from a source. `network` is the one that the address belongs to."""

    source: str
    target: str
    network: str
    family: int
    address: str
    reach: bool
    reason: str


def expected(plan: dict, node: str | None = None) -> list[Pair]:
    """Return every (source, address of another workload), with what must come of it; `node`: only its sources."""
    sources = [name for name, workload in plan["workloads"].items() if node in (None, workload["node"])]
    return [
        Pair(
            source,
            target,
            interface["network"],
            family(address),
            plain(address),
            *_judged(plan, source, target, interface),
        )
        for source in sources
        for target in plan["workloads"]
        if target != source
        for interface in plan["workloads"][target]["interfaces"]
        for address in interface["addresses"]
    ]


def _judged(plan: dict, source: str, target: str, interface: dict) -> tuple[bool, str]:
    network = interface["network"]
    mine = next((own for own in plan["workloads"][source]["interfaces"] if own["network"] == network), None)
    if mine is None:
        return False, f"{source} is not attached to {network}"
    for name, end in ((source, mine), (target, interface)):
        if end["role"] == LOCKED:
            return False, f"{network} is locked for {name}, whose primary network is another one"
    return True, f"both are attached to {network}"
