# SPDX-License-Identifier: Apache-2.0
"""The parts of a node's desired state that can be applied separately, built from the files that playbooks wrote."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable

from ...common.change import Outcome
from ..chassis.chassis import apply_chassis, matched_prober, wanted_bridges
from ..context import NodeContext
from ..health.health import other_facts
from ..module_runner import HOST_FILE, PLAN_FILE, UserError, load_plan, read_plan_file
from ..node_gateway import apply_gateway
from ..topology import apply_topology
from ..workloads import apply_routed_workloads, apply_workloads

WAIT_TIMEOUT = 60
# `routed` is a part of `workloads` that is applied alone when something else changed the kernel.
PARTS = ("chassis", "topology", "gateway", "workloads", "routed")


def read_host(path: str = HOST_FILE) -> dict:
    """Return what the install playbook stored: `node` and the arguments of the chassis module; UserError without it."""
    try:
        with open(path, encoding="utf-8") as text:
            host = json.load(text)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}. Run heddle.ovn.install, which writes it.") from error
    if not (
        isinstance(host, dict) and isinstance(host.get("node"), str) and isinstance(host.get("chassis"), dict)
    ):  # fmt: skip
        raise UserError(f"{path} is malformed. Run heddle.ovn.install, which writes it.")
    return host


def host_version(path: str = HOST_FILE) -> tuple[int, int]:
    """Return an identity of the host's file, another one after each replacement; zeros when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


def read_plan(path: str = PLAN_FILE) -> dict | None:
    """Return the plan of this host, None before the first one; UserError when the file is damaged."""
    return read_plan_file(path) if os.path.exists(path) else None


def attached_uplinks(host: dict) -> frozenset[str]:
    """Return the uplinks attached to bridges of this host."""
    return frozenset(bridge["uplink"] for bridge in wanted_bridges(host["chassis"]) if bridge["uplink"])


def prober_cgroup(host: dict) -> str:
    """Return the path of the health prober's cgroup below the root of cgroups, "" when this host has none to match."""
    provider = host["chassis"]["provider"] or {}
    return matched_prober(provider)


def parts(host: dict, *, write: bool) -> dict[str, Callable[[], Outcome]]:
    """Return the parts of this host in their order; each is computed, and with `write` applied, when called."""
    context = NodeContext(host["node"], PLAN_FILE, write, timeout=WAIT_TIMEOUT)
    found = {"chassis": lambda: _chassis(host, write=write)}
    if os.path.exists(PLAN_FILE):
        found |= {
            "topology": lambda: apply_topology(context, load_plan(context)),
            "gateway": lambda: _gateway(host, context),
            "workloads": lambda: apply_workloads(context, load_plan(context)),
            "routed": lambda: apply_routed_workloads(context, load_plan(context)),
        }
    return found


def _chassis(host: dict, *, write: bool) -> Outcome:
    """Apply the chassis; the facts that the host reports are compared with the plan, which is built from them."""
    outcome, facts = apply_chassis(host["chassis"], write=write)
    plan = {}
    # A damaged plan is reported by the other parts.
    with contextlib.suppress(UserError):
        plan = read_plan(PLAN_FILE) or {}
    return outcome + Outcome(notes=tuple(other_facts(host["node"], facts["gateway"], plan)))


def _gateway(host: dict, context: NodeContext) -> Outcome:
    """Apply the gateways, unless the plan is older than the host's bridges: its ports would never appear."""
    plan = load_plan(context)
    planned = plan["nodes"].get(host["node"], {}).get("gateway") or {}
    provider = host["chassis"]["provider"] or {}
    if planned and planned["bridge"] != provider.get("bridge") and context.write:
        raise UserError(
            f"the plan has {planned['bridge']} as the provider's bridge, this host {provider.get('bridge', 'none')}. "
            "Run heddle.ovn.networks, which writes a matching plan"
        )
    return apply_gateway(context, plan)
