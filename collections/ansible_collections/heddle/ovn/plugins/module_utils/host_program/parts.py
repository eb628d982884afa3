# SPDX-License-Identifier: Apache-2.0
"""A host's share in the parts in which playbooks bring it, from what they left on the disk."""

from __future__ import annotations

import json
from collections.abc import Callable

from ..apply.change import Outcome
from ..invocation import Invocation
from ..runner import HOST_FILE, PLAN_FILE, Failure
from ..share import apply_workloads
from ..share_chassis import apply_chassis
from ..share_gateway import apply_gateway
from ..share_topology import apply_topology

WAIT_TIMEOUT = 60


def read_host(path: str = HOST_FILE) -> dict:
    """Return what the install playbook left: `node` and the arguments of the chassis module; Failure without it."""
    try:
        with open(path, encoding="utf-8") as text:
            return json.load(text)
    except (OSError, ValueError) as error:
        raise Failure(f"{path}: {error}. Run playbooks/install.yml, which brings it.") from error


def read_plan(path: str = PLAN_FILE) -> dict | None:
    """Return the plan that this host has, None before it got one."""
    try:
        with open(path, encoding="utf-8") as text:
            return json.load(text)
    except (OSError, ValueError):
        return None


def parts(host: dict, *, write: bool) -> dict[str, Callable[[], Outcome]]:
    """Return the parts of this host in their order; each is computed, and with `write` brought about, when called."""
    node = {"node": host["node"], "plan": PLAN_FILE, "document": None, "wait_timeout": WAIT_TIMEOUT}
    share = Invocation(node, check_mode=not write)
    found = {"chassis": lambda: apply_chassis(Invocation(host["chassis"], check_mode=not write))[0]}
    if read_plan() is not None:
        found |= {
            "topology": lambda: apply_topology(share),
            "gateway": lambda: apply_gateway(share),
            "workloads": lambda: apply_workloads(share),
        }
    return found
