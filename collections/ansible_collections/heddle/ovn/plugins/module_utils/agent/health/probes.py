# SPDX-License-Identifier: Apache-2.0
"""Readiness probes of this host: the daemon, its report, and whether it runs."""

from __future__ import annotations

import asyncio
import os

from ...common.files.daemon_report import only_daemon
from ...common.files.replaced_file import ReplacedFile
from ...probe_daemon.daemon import Daemon
from ...probe_daemon.report import READINESS_REPORT, current_report, wait_for_report
from ...render.services.readiness import has_probes, render_probes
from ...types.readiness_probe import Probe
from ..module_runner import PLAN_FILE, Request, read_plan_file
from ..service.components import read_host
from ..service.service import say

# Seconds that the daemon may need to read the plan and to report: on a slow machine reading a large plan takes long.
_PATIENCE = 60.0


def run_probes() -> None:
    """Run the daemon until the plan has no probes, on any host."""
    os.makedirs(os.path.dirname(READINESS_REPORT), mode=0o755, exist_ok=True)
    node = read_host()["node"]
    with only_daemon(READINESS_REPORT):
        asyncio.run(Daemon(ReplacedFile(PLAN_FILE, lambda path: _probes(path, node)), READINESS_REPORT, say).run())


def _probes(path: str, node: str) -> dict[str, Probe] | None:
    plan = read_plan_file(path)
    return render_probes(plan, node) if has_probes(plan) else None


def readiness_of(plan: dict, node: str) -> dict[str, dict]:
    """Return `ready` and `message` for each workload of the node with a probe; one that was not probed is not ready."""
    probes = render_probes(plan, node) if node in plan.get("nodes", {}) else {}
    found = current_report(probes) if probes else {}
    return {name: found.get(name, {"ready": False, "message": "not probed yet"}) for name in sorted(probes)}


def first_readiness(plan: dict, node: str) -> dict[str, dict]:
    """Return the same once each workload was probed; waits for as long as first probes take, and no longer."""
    if node in plan.get("nodes", {}):
        wait_for_report(render_probes(plan, node), _PATIENCE)
    return readiness_of(plan, node)


def probe_info_result(request: Request) -> dict:
    """Return the result of the module `probe_info`: the report, once each workload was probed."""
    plan = read_plan_file(request.params["plan"]) if os.path.exists(request.params["plan"]) else {}
    read = readiness_of if request.check_mode else first_readiness
    return {"changed": False, "readiness": read(plan, request.params["node"])}
