# SPDX-License-Identifier: Apache-2.0
"""Measures echoes to one workload during its migration, sent by one that stays in place."""

from __future__ import annotations

from dataclasses import dataclass

from ..agent.context import NodeContext
from ..agent.module_runner import UserError, known_node, load_plan
from ..common.addressing import family, plain
from ..common.naming import workload_namespace
from ..netlink import kernel
from .control import DIRECTORY, Process
from .flows import EAST_WEST, ICMP, Flow
from .loop import Task

INTERVAL_MS = 10


@dataclass(frozen=True)
class Request:
    """The options of the module migration_watch: `lifetime` is in seconds.

    `workload` moves to the node `target`; without `addresses` its own ones are asked.
    """

    state: str
    workload: str
    target: str | None
    addresses: list[str]
    lifetime: int


def watch(context: NodeContext, request: Request, directory: str = f"{DIRECTORY}/watch") -> dict:
    """Return the module's result: the sending workload, and with `stopped` the figures; nothing on other hosts."""
    plan = load_plan(context)
    node, name = known_node(plan, context.node), request.workload
    if name not in plan["workloads"]:
        raise UserError(f"there is no workload {name} in the plan; write it as NAMESPACE/NAME")
    process = Process(directory)
    try:
        if request.state == "stopped":
            changed = process.stop(write=context.write)
            return {"changed": changed, "figures": summary(process.figures()) if changed else {}}
        peer = chosen_peer(plan, name, request.target)
        if peer is None:
            raise UserError(f"no other workload on a network of {name} can send to it")
        if plan["workloads"][peer]["node"] != node:
            return {"changed": False, "peer": peer}
        if kernel.PYROUTE2_IMPORT_ERROR is not None:
            raise UserError("pyroute2 is missing on this host; run heddle.ovn.install")
        task = echoes(plan, name, peer, request.addresses)
        return {"changed": process.start(task, request.lifetime, write=context.write), "peer": peer}
    except OSError as error:
        raise UserError(f"{error.strerror or error}; this needs root") from error


def chosen_peer(plan: dict, name: str, target: str | None) -> str | None:
    """Return the workload that sends: on the same primary network, preferably on neither end of the move."""
    networks = {one["network"] for one in plan["workloads"][name]["interfaces"] if one["role"] == "primary"}
    ends = (target, plan["workloads"][name]["node"])
    candidates = [
        other
        for other, workload in plan["workloads"].items()
        if workload["kind"] == "netns"
        and any(one["network"] in networks and one["addresses"] for one in workload["interfaces"])
    ]
    return min(candidates, key=lambda other: (plan["workloads"][other]["node"] in ends, other), default=None)


def echoes(plan: dict, name: str, peer: str, addresses: list[str]) -> Task:
    """Return the task of the sender's host: an echo every 10 ms to each of the addresses, or the workload's own."""
    network = next(one for one in plan["workloads"][name]["interfaces"] if one["role"] == "primary")
    chosen = addresses or [plain(address) for address in network["addresses"]]
    flows = [
        Flow(EAST_WEST, ICMP, network["network"], peer, name, family(address), address, INTERVAL_MS)
        for address in chosen
    ]
    return Task(flows, [], {peer: workload_namespace(*peer.split("/"))}, 0)


def summary(figures: dict | None) -> dict:
    """Return by address: `sent`, `lost`, `longest_gap_ms` between the sending of two answered echoes, `slowest_ms`."""
    found = {}
    for segment in (figures or {}).get("segments", []):
        gaps = [end - start for start, end, _lost in segment["gaps"]]
        found[segment["address"]] = {
            "sent": segment["sent"],
            "lost": segment["lost"],
            "longest_gap_ms": round(max(gaps, default=INTERVAL_MS / 1000) * 1000),
            "slowest_ms": round(segment["slowest"] * 1000),
        }
    return found
