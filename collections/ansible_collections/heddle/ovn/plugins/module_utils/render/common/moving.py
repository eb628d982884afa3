# SPDX-License-Identifier: Apache-2.0
"""What the plans of a move (`handover.py`) have besides: the addresses that a host does not have yet, or not any more.

A host that gets an address, or has given it up, does all that its holder does, since workloads of other hosts may still
leave by it. Flows of the provider bridge drop what would leave with that address.
"""

from __future__ import annotations

# Part of a plan: addresses that their host has by the plan, and neither answers for nor sends with.
UNANNOUNCED = "unannounced"


def moving_addresses(entry: dict) -> tuple[str, ...]:
    """Return the addresses of an EgressIP or EgressService that a node gets, and those that it has given up."""
    return (*entry.get("arriving", ()), *entry.get("leaving", ()))
