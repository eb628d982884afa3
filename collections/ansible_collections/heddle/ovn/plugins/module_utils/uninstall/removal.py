# SPDX-License-Identifier: Apache-2.0
"""The result of the module `host_removal`: what prevents it, and the order in which a host is restored."""

from __future__ import annotations

import contextlib
import os

from ..agent.context import LOCK_FILE, only_writer
from ..agent.mesh import remove_encryption
from ..agent.module_runner import Request, UserError, result
from ..agent.service.components import read_plan
from ..common.change import Outcome
from ..common.databases import STATE_REMOTE
from ..qemu.instance import read_vms
from . import host_parts, network, saved_state
from .blockers import blockers
from .footprint import STATE_DATABASE, VSWITCH_DATABASES
from .packages import remove_packages
from .record import Before, read_record

SERVICES = (
    "heddle-metrics.timer", "heddle-metrics", "heddle-metrics-http.socket", "heddle-mesh", "heddle-probes",
    "heddle-dns-names", "heddle-underlay", "heddle-host",
)  # fmt: skip
_STATE_SOCKET = STATE_REMOTE.removeprefix("unix:")
_UNRECORDED = (
    "{} has no record of what it was before Heddle, because it was installed by a release without: only what is marked "
    "as Heddle's is removed; packages, units, users, kernel settings and databases of Open vSwitch and OVN stay"
)


def removal_result(request: Request) -> dict:
    """Remove Heddle from this host, or report what prevents it; in check mode both."""
    params, write = request.params, not request.check_mode
    before, traces = read_record(), host_parts.own_traces()
    plan = _plan()
    found = _blockers(params, plan, before)
    if found and write and not params["force"]:
        raise UserError("\n".join(found))
    deployments = sorted({params["deployment"], plan.get("deployment", params["deployment"])})
    outcome = _stopped(write=write)
    # Made anew when the host is clean already, it would be a change of each run.
    locked = write and os.path.isdir(os.path.dirname(LOCK_FILE))
    with only_writer(write=locked):
        outcome += _removed(params, before, deployments, write=write)
    if traces and not before and not _state_only(traces):
        outcome += Outcome(notes=(_UNRECORDED.format(params["node"]),))
    saved = os.path.exists(_STATE_SOCKET) and params["databases"] == "remove"
    return {**result(outcome, diff=request.diff), "blockers": found, "recorded": bool(before), "back_up": saved}


def _stopped(*, write: bool) -> Outcome:
    """Stop the services first: that of the host would bring back what is removed, and so would that of metrics.

    A timer that is stopped does not stop what it has started.
    """
    outcome = Outcome()
    for unit in SERVICES:
        outcome += host_parts.stop_own_unit(unit, write=write)
    return outcome


def _removed(params: dict, before: Before, deployments: list[str], *, write: bool) -> Outcome:
    outcome = network.remove_networks(deployments, write=write)
    outcome += remove_encryption(write=write)
    restored = {change.name for change in outcome.changes if change.kind == network.SYSCTL}
    outcome += host_parts.restore_sysctls(before, restored, write=write)
    outcome += network.remove_ovn_rows(deployments, before, write=write)
    keep_database = params["databases"] == "keep"
    # The playbook has backed it up while it ran; stopped, it could not be any more.
    if write and not keep_database and os.path.exists(_STATE_SOCKET):
        saved_state.note_saved()
    outcome += host_parts.stop_own_unit("heddle-state", write=write)
    if not keep_database:
        outcome += host_parts.remove_state_database(write=write)
        if write:
            saved_state.forget()
    # With their drop-ins, stopped daemons would keep their chassis and their flows.
    outcome += host_parts.remove_own_files(write=write)
    # ovn-controller would make the integration bridge again.
    outcome += host_parts.restore_units(before, ovn=True, write=write)
    outcome += network.remove_bridges(before, write=write)
    outcome += host_parts.restore_units(before, ovn=False, write=write)
    outcome += host_parts.remove_users(before, ["heddle"] if keep_database else [], write=write)
    if params["packages"] == "remove":
        outcome += remove_packages(before, write=write)
    outcome += host_parts.restore_files(before, write=write)
    # Last: a run that was cut off before is completed by means of the record.
    return outcome + host_parts.remove_library(write=write)


def _plan() -> dict:
    with contextlib.suppress(UserError):
        return read_plan() or {}
    return {}


def _state_only(traces: list[str]) -> bool:
    """Return whether nothing is left but a state database that a former run has kept."""
    return traces == [STATE_DATABASE]


def _blockers(params: dict, plan: dict, before: Before) -> list[str]:
    node = params["node"]
    state = os.path.isdir(STATE_DATABASE)
    own = {f"{plan.get('deployment', params['deployment'])}:workload"}
    here = {
        name: workload
        for name, workload in {**plan.get("workloads", {}), **plan.get("coil", {}).get("workloads", {})}.items()
        if node in (workload.get("node"), workload.get("moving_to"))
    }
    return blockers(
        node,
        workloads=[name for name in here if here[name].get("kind") != "vm"],
        virtual_machines=[name for name, vm in read_vms().items() if vm["owner"] in own],
        remaining=params["remaining"] if state else (),
        unsaved=params["databases"] == "remove" and not os.path.exists(_STATE_SOCKET) and saved_state.is_unsaved(),
        foreign_ports=network.foreign_ports(),
        foreign_bridges=network.foreign_bridges() if before.lacked(VSWITCH_DATABASES) else (),
    )
