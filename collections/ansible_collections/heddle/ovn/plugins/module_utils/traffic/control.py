# SPDX-License-Identifier: Apache-2.0
"""Implementation of the traffic module: at most one process per host, and its figures."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import asdict, dataclass

from ..agent.context import NodeContext
from ..agent.module_runner import UserError, known_node, load_plan
from ..common.files.json_file import read_json
from ..common.processes.background_process import began, end, is_running, spawn
from ..common.serialization import digest
from ..netlink import kernel
from .flows import Answerer, answerers, at_most_every, chosen_workloads, entrance_flows, flows, sources
from .loop import Task, Traffic

DIRECTORY = "/run/heddle"


@dataclass(frozen=True)
class Request:
    """The options of the module traffic: `port` is of UDP and TCP, `lifetime` is in seconds.

    `external` has the addresses of hosts of the provider network by name. No flow sends more often than every
    `interval` milliseconds.
    """

    state: str
    port: int
    lifetime: int
    external: dict[str, list[str]]
    interval: int


def traffic(context: NodeContext, request: Request, directory: str = DIRECTORY) -> dict:
    """Return the module's result for its `state`. `now` is this host's clock, to compare it with others."""
    process = Process(directory)
    try:
        if request.state == "started":
            task, chosen = _task(context, request)
            changed = process.start(task, request.lifetime, write=context.write)
            return {"changed": changed, "workloads": chosen, "now": time.time()}
        changed = process.stop(write=context.write) if request.state == "stopped" else False
        return {"changed": changed, "figures": process.figures(), "now": time.time()}
    except OSError as error:
        raise UserError(f"{error.strerror or error}; this needs root") from error


def _task(context: NodeContext, request: Request) -> tuple[Task, dict]:
    name, external = context.node, request.external
    if name in external:
        own = [Answerer(name, None, address) for address in external[name]]
        # It has no plan of its own; one that it is not given it does not need.
        plan = load_plan(context) if context.document else None
        sent = entrance_flows(plan, chosen_workloads(plan), name, external[name]) if plan else []
        return Task(at_most_every(request.interval, sent), own, {name: None}, request.port), {}
    if kernel.PYROUTE2_IMPORT_ERROR is not None:
        raise UserError("pyroute2 is missing on this host; run heddle.ovn.install")
    plan = load_plan(context)
    known_node(plan, name)
    chosen = chosen_workloads(plan)
    sent = at_most_every(request.interval, flows(plan, chosen, external))
    return Task(sent, answerers(plan, chosen), sources(plan, chosen), request.port), chosen


class Process:
    """The background process of a host, identified by files in a directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.state_file = os.path.join(directory, "traffic.json")
        self.figures_file = os.path.join(directory, "traffic-figures.json")

    def start(self, task: Task, lifetime: float, *, write: bool) -> bool:
        """Run a process for this task; return whether one had to be started.

        A running one continues: an interrupted change that is completed later is one change.
        """
        fingerprint = digest(asdict(task))
        running = self.running()
        if running and running["task"] == fingerprint:
            return False
        if not write:
            return True
        self.stop(write=True)
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.figures_file)
        work = Traffic(task, self.figures_file)
        process = spawn(lambda: work.run(lifetime), work.end)
        state = {"pid": process, "began": began(process), "task": fingerprint}
        with open(self.state_file, "w", encoding="utf-8") as file:
            json.dump(state, file)
        return True

    def stop(self, *, write: bool) -> bool:
        """End the process; return whether there was one. Its figures stay."""
        state = self.running()
        if state and write:
            end(state["pid"], state["began"])
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.state_file)
        return state is not None

    def running(self) -> dict | None:
        """Return the record of the process, None when there is none."""
        state = read_json(self.state_file)
        return state if state and is_running(state["pid"], state["began"]) else None

    def figures(self) -> dict | None:
        """Return the figures that the last process wrote."""
        return read_json(self.figures_file)
