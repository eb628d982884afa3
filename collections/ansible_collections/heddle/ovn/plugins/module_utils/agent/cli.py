# SPDX-License-Identifier: Apache-2.0
"""The command line of `heddle-host`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from typing import TextIO

from ..common.change import Outcome
from ..common.files.atomic_file import replace_file
from ..common.plan_format import has_ovn
from ..common.processes import bytecode_cache
from ..render.northbound import render_northbound
from .context import only_writer
from .damaged_plan import MALFORMED, damage
from .dns_names import dns_names_of, run_dns_names
from .health.health import needed_units, other_chassis, routing, stopped_daemons, stopped_of, stopped_services
from .health.host_service import stopped_host_service
from .health.probes import readiness_of, run_probes
from .mesh import mesh_state, mesh_status, run_mesh
from .metrics.egress_counters import egress_counters
from .metrics.metrics import Observed, connections, metrics_text
from .metrics.metrics_http import answer
from .module_runner import PLAN_FILE, UserError, refusal
from .node_gateway import last_applied
from .service.components import parts, read_host, read_plan
from .service.event_loop import Calls
from .service.service import ERRORS, watch
from .underlay import known_paths, narrow_paths, narrow_underlay, run_underlay

EXIT_CLEAN, EXIT_DRIFT, EXIT_FAILED = 0, 1, 2
# Seconds for the first step of the service, which compares the whole host with its plan.
_PATIENCE = 60.0


def main(arguments: list[str] | None = None, calls: Callable[[], Calls] | None = None) -> int:
    """Run one verb; returns 0 when the host is as planned, 1 when something differs, 2 when that is unknown.

    `calls` opens what takes Ansible's calls, for the service.
    """
    parser = argparse.ArgumentParser(prog="heddle-host", description="Keep this host as planned.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    status = verbs.add_parser("status", help="report whether this host is as planned, and what differs")
    status.add_argument("--json", action="store_true", help="as JSON")
    verbs.add_parser("diff", help="show what differs and change nothing")
    metrics = verbs.add_parser("metrics", help="print metrics as text of Prometheus")
    metrics.add_argument("--output", help="write them to this file at once, such as one that node_exporter reads")
    metrics.add_argument("--http", action="store_true", help="answer an HTTP request on standard input and output")
    verbs.add_parser("apply", help="bring this host to the plan")
    verbs.add_parser("watch", help="apply, then keep it in place; the service runs this")
    verbs.add_parser("running", help="wait until the service has started, and report whether it runs")
    mesh = verbs.add_parser("mesh", help="the mesh, on a host with a MeshNetwork")
    mesh.add_argument("action", choices=["status", "run"], help="report connections and peers; run: its service does")
    mesh.add_argument("--json", action="store_true", help="as JSON")
    verbs.add_parser("probes", help="run readiness probes of workloads; their service does this")
    verbs.add_parser("dns-names", help="resolve the DNS names of EgressFirewalls; their service does this")
    verbs.add_parser("underlay", help="check the paths to other hosts; their service does this")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "mesh":
        return _mesh(chosen)
    if chosen.verb == "running":
        return _running()
    if chosen.verb in ("apply", "watch"):
        bytecode_cache.keep()
    problems = _problems() if chosen.verb == "status" else []
    try:
        if chosen.verb == "watch":
            watch(calls() if calls else None)
        if chosen.verb in _DAEMONS:
            _DAEMONS[chosen.verb]()
            return EXIT_CLEAN
        if chosen.verb == "metrics":
            return _metrics(chosen)
        outcomes = _outcomes(write=chosen.verb == "apply")
    except (*ERRORS, *MALFORMED) as error:
        damaged = damage(PLAN_FILE, error) if isinstance(error, MALFORMED) else ""
        if not damaged and not isinstance(error, ERRORS):
            raise
        _write_lines("", "\n".join([f"heddle-host: {damaged or error}", *problems]), sys.stderr)
        return EXIT_FAILED
    if chosen.verb == "status":
        return _status(outcomes, chosen, problems)
    return _VERBS[chosen.verb](outcomes, chosen)


def _mesh(chosen: argparse.Namespace) -> int:
    try:
        if chosen.action == "status":
            return EXIT_CLEAN if mesh_status(as_json=chosen.json) else EXIT_DRIFT
        run_mesh()
    except ERRORS as error:
        what = "the daemon of the mesh does not answer: " if chosen.action == "status" else ""
        _write(f"heddle-host: {what}{error}", sys.stderr)
        return EXIT_FAILED
    return EXIT_CLEAN


def _running() -> int:
    stopped = stopped_host_service(_PATIENCE)
    _write_lines("", "\n".join(stopped.values()), sys.stderr)
    return EXIT_DRIFT if stopped else EXIT_CLEAN


def _outcomes(*, write: bool) -> dict[str, Outcome]:
    with only_writer(write=write):
        return {name: part() for name, part in parts(read_host(), write=write).items()}


def _metrics(chosen: argparse.Namespace) -> int:
    if chosen.http:
        answer(sys.stdin.buffer, sys.stdout.buffer, _metrics_text)
    elif chosen.output:
        replace_file(chosen.output, _metrics_text(), mode=0o644)
    else:
        _write(_metrics_text().rstrip("\n"))
    return EXIT_CLEAN


def _metrics_text() -> str:
    plan, host = read_plan(), read_host()
    if plan is None:
        raise UserError("no plan yet; run heddle.ovn.networks")
    differences: dict[str, int | None] = {}
    with only_writer(write=False):
        for name, part in parts(host, write=False).items():
            try:
                differences[name] = len(part().changes)
            except (*ERRORS, *MALFORMED):
                differences[name] = None
    stopped = {**stopped_of(plan), **stopped_services(plan)}
    daemons = {unit: unit not in stopped for unit in needed_units(plan)}
    node = host["node"]
    observed = Observed(
        differences, daemons, routing(plan), connections(plan, node), egress_counters(plan, node),
        readiness={name: one["ready"] for name, one in readiness_of(plan, node).items()},
        rows=len(render_northbound(plan, node)) if has_ovn(plan) else None, applied=last_applied(),
        paths=known_paths(plan), mesh=mesh_state(plan), dns_names=dns_names_of(plan),
    )  # fmt: skip
    return metrics_text(plan, node, observed)


def _problems() -> list[str]:
    """Return what prevents this host from following any plan; the differences report what cannot be determined."""
    found = []
    with contextlib.suppress(*ERRORS, *MALFORMED):
        plan = read_plan() or {}
        found += [*stopped_services(plan).values(), *narrow_paths(plan)] if plan else ()
        if not has_ovn(plan):
            return found
    found += stopped_daemons()
    with contextlib.suppress(*ERRORS, *MALFORMED):
        node, plan = read_host()["node"], read_plan() or {"nodes": {}}
        found += other_chassis(node, plan)
        found += narrow_underlay(plan, node) if node in plan["nodes"] else []
    return found


def _status(outcomes: dict[str, Outcome], chosen: argparse.Namespace, problems: list[str]) -> int:
    plan = read_plan() or {}
    readiness = readiness_of(plan, read_host()["node"])
    problems = [*problems, *(text for outcome in outcomes.values() for text in outcome.notes)]
    differs = {name: [str(change) for change in outcome.changes] for name, outcome in outcomes.items()}
    clean = bool(plan) and not any(differs.values()) and not problems
    status = {
        "plan": plan.get("digest"), "revision": plan.get("revision"), "clean": clean, "differs": differs,
        "problems": problems, "readiness": readiness, "dns_names": dns_names_of(plan),
    }  # fmt: skip
    if chosen.json:
        _write(json.dumps(status, indent=1))
    elif not plan:
        _write("no plan yet; run heddle.ovn.networks")
    else:
        _write(f"plan {status['plan']} (revision {status['revision']})")
        for name, changes in differs.items():
            _write(f"{name:<10} {'as planned' if not changes else f'{len(changes)} differences'}")
            for change in changes:
                _write(f"           {change}")
        for name, one in readiness.items():
            _write(f"{name:<10} {'ready' if one['ready'] else 'not ready: ' + one['message']}")
        for name, one in status["dns_names"].items():
            _write(f"{name:<10} {one['problem'] or ', '.join(one['addresses']) or 'no address'}")
    if not chosen.json:
        _write_lines("", "\n".join(problems))
    return EXIT_CLEAN if clean else EXIT_DRIFT


def _diff(outcomes: dict[str, Outcome], _chosen: argparse.Namespace) -> int:
    for outcome in outcomes.values():
        for change, texts in zip(outcome.changes, outcome.diff(), strict=True):
            _write(str(change))
            _write_lines("- ", texts["before"])
            _write_lines("+ ", texts["after"])
    return EXIT_DRIFT if any(outcome.changed for outcome in outcomes.values()) else EXIT_CLEAN


def _apply(outcomes: dict[str, Outcome], _chosen: argparse.Namespace) -> int:
    for outcome in outcomes.values():
        for change in outcome.changes:
            _write(str(change))
    refused = [refusal(outcome) for outcome in outcomes.values() if outcome.refused]
    for text in [*(text for outcome in outcomes.values() for text in outcome.notes), *refused]:
        _write(text, sys.stderr)
    return EXIT_FAILED if refused else EXIT_CLEAN


def _write_lines(mark: str, text: str, stream: TextIO | None = None) -> None:
    for line in text.splitlines():
        _write(mark + line, stream)


def _write(text: str, stream: TextIO | None = None) -> None:
    (stream or sys.stdout).write(text + "\n")


_DAEMONS = {"probes": run_probes, "dns-names": run_dns_names, "underlay": run_underlay}
_VERBS = {"diff": _diff, "apply": _apply}
