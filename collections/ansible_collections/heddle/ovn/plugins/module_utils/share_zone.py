# SPDX-License-Identifier: Apache-2.0
"""All of a host's share of the plan, in the order in which its parts need each other."""

from __future__ import annotations

from .apply.change import Outcome
from .keep import keep_plan
from .runner import known_node, load_plan
from .share import apply_workloads
from .share_gateway import apply_gateway
from .share_topology import apply_topology

PARTS = {"topology": apply_topology, "gateway": apply_gateway, "workloads": apply_workloads}


def apply_zone(module) -> Outcome:
    """Keep the plan first: whatever cuts this off, `heddle-host` goes on with it."""
    plan = load_plan(module)
    known_node(plan, module.params["node"])
    outcome = keep_plan(plan, module.params["plan"], write=not module.check_mode)
    for name, apply in PARTS.items():
        if name in module.params["parts"]:
            outcome += apply(module, plan)
    return outcome
