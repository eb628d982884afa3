# SPDX-License-Identifier: Apache-2.0
"""Live migration of a virtual machine: the record in the state, and QEMU's part on both hosts.

The order makes it safe: record the move, let every zone send to both hosts, migrate, find out which of the two runs,
record that, let every zone send there. After an interruption, the record and the state of both QEMUs show how to go on.
"""

from __future__ import annotations

import math
import secrets
import time
from functools import partial
from pathlib import Path

from ..agent.arriving_names import wait_for_names
from ..agent.context import NodeContext
from ..agent.module_runner import PLAN_FILE, UserError, connected, known_node, load_plan
from ..agent.state_connection import STATE_DATABASE
from ..agent.zone import stored_plan
from ..common.databases import VSWITCH_REMOTE
from ..common.naming import INTEGRATION_BRIDGE, workload_namespace
from ..common.polling import attempts
from ..common.serialization import pack
from ..controllers.address_holders import update_users
from ..controllers.admission.apply_manifests import store
from ..controllers.unfinished_moves import unfinished_moves
from ..controllers.workload.move import MoveRefused, begin_move, end_move
from ..openflow.switch import Switch
from ..plan import build_plan
from ..plan.address_holders import moved_addresses
from ..qemu import instance
from ..qemu.credentials import forget_key, read_key, use_key
from ..qemu.qmp import Qmp, QmpAbsent, QmpError
from ..render.announcement import render_announcements
from ..render.common.hosting_nodes import hosting_nodes
from ..render.common.node_network import nodes_of
from ..store.snapshot import Snapshot
from .limited_moves import refuse_left_out, update_holders_within
from .readiness import now, update_reports

STATE_ARGUMENTS = {
    "workload": {"type": "str", "required": True},
    "node": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["started", "finished"], "required": True},
    "left_out": {"type": "list", "elements": "str", "default": []},
    **STATE_DATABASE,
}
HOST_ARGUMENTS = {
    "workload": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["receiving", "sent", "completed"], "required": True},
    "address": {"type": "str"},
    "port": {"type": "int"},
    "key": {"type": "str", "no_log": True},
    "downtime_limit": {"type": "int", "default": 150},
    "timeout": {"type": "int", "default": 300},
}
_UNDER_WAY = ("setup", "wait-unplug", "active", "pre-switchover", "device", "cancelling")  # QEMU's MigrationStatus
_PAUSE = 0.02
# Seconds until the target has asked for DNS names: several times as long as resolvers have to answer.
_NAMES_SECONDS = 60.0


def record_move(params: dict, client, *, write: bool) -> tuple[Snapshot, Snapshot, dict]:
    """Record the beginning or the end of a move; return the states before and after, and the module's result.

    The result has `move`, `document`, the plan that every host has to apply next, and `moved_addresses`. Addresses move
    at the end only, when the VM has arrived: those of load balancers whose host has no endpoint any more. At the
    beginning those are handed over that a run which was cut off has moved in the state.
    """
    move: dict = {}

    def decide(before: Snapshot) -> tuple[Snapshot, list]:
        if params["state"] == "started":
            after, result = begin_move(before, params["workload"], params["node"])
            # Before anything is stored, and also where nothing is pending: the last plan may not be on every host yet.
            plan = build_plan(after)
            _require_hosts(plan, params["workload"], result, params["left_out"])
            refuse_left_out(build_plan(before), plan, params["left_out"], unfinished_moves(after))
            move.update(result)
            settle = update_users
        else:
            after = end_move(before, params["workload"], params["node"])
            settle = partial(update_holders_within, left_out=params["left_out"])
        if after is not before:
            moment = now()
            settle(before, after, moment)
            update_reports(after, moment)
        return after, []

    if client is None:
        raise UserError("there is no state database yet; run heddle.ovn.site")
    try:
        before, after = store(client, decide, write=write)
    except MoveRefused as error:
        raise UserError(str(error)) from error
    plan = build_plan(after)
    unfinished = unfinished_moves(after) if params["state"] == "started" else {}
    moved = moved_addresses(build_plan(before), plan, unfinished=unfinished)
    return before, after, {"move": move, "node": params["node"], "document": pack(plan), "moved_addresses": moved}


def _require_hosts(plan: dict, name: str, move: dict, left_out: list[str]) -> None:
    """Raise MoveRefused when hosts that have a network of the workload take no part in the run.

    They would neither send to both ends nor, afterwards, to the new one.
    """
    networks = {one["network"] for one in plan["workloads"].get(name, {}).get("interfaces", ())}
    missing = sorted({node for network in networks for node in nodes_of(plan, network)}.intersection(left_out))
    if missing:
        raise MoveRefused(
            f"the limit of this run leaves out {', '.join(missing)}, which would go on sending to {name} at "
            f"{move['from']}; nothing was recorded. Add every host that has its networks to --limit, or run this "
            "without a limit"
        )


def vm_name(workload: str) -> str:
    """Return the name of the virtual machine NAMESPACE/NAME on a host."""
    namespace, slash, name = workload.partition("/")
    if not slash or not namespace or not name:
        raise UserError(f"workload {workload!r} is not written as NAMESPACE/NAME")
    return workload_namespace(namespace, name)


def bring_machine(params: dict, *, write: bool) -> dict:
    """Apply the `state` of the module virtual_machine to a VM on this host; return the module's result.

    Without `write` no QEMU is queried: the QEMU of an earlier step is not there in check mode.
    """
    if not write:
        return {"changed": True}
    if params["state"] == "receiving":
        # Addresses of names are not in the plan, so this host may have none yet after it has applied that.
        wait_for_names(stored_plan(NodeContext("", PLAN_FILE, write=False)), params["workload"], _NAMES_SECONDS)
    return {"receiving": receive, "sent": send, "completed": complete}[params["state"]](params)


def receive(params: dict) -> dict:
    """Make the waiting QEMU listen on one address, protected by a fresh key; return `port` and `key`.

    A QEMU that listens already, because an earlier run was interrupted, keeps its port and key.
    """
    name = vm_name(params["workload"])
    with Qmp(instance.socket_of(name)) as vm:
        status = vm.execute("query-status")["status"]
        if status != "inmigrate":
            raise UserError(f"{params['workload']} does not wait for a migration on this host; it is {status} here")
        listening = vm.execute("query-migrate").get("socket-address")
        if listening:
            return {"changed": False, "port": int(listening[0]["port"]), "key": read_key(_directory(name))}
        key = secrets.token_hex(32)
        use_key(vm, _directory(name), instance.user_id(), key, "server")
        address = f"[{params['address']}]" if ":" in params["address"] else params["address"]
        vm.execute("migrate-incoming", {"uri": f"tcp:{address}:0"})
        listening = vm.execute("query-migrate")["socket-address"]
    return {"changed": True, "port": int(listening[0]["port"]), "key": key}


def send(params: dict) -> dict:
    """Migrate the running VM to the QEMU that listens; return QEMU's statistics, in milliseconds and bytes.

    When this returns, the VM runs there. Raises UserError when it continues to run here.
    """
    name = vm_name(params["workload"])
    with Qmp(instance.socket_of(name)) as vm:
        # An earlier run that was interrupted may have begun it, or even completed it.
        over = vm.execute("query-status")["status"] == "postmigrate"
        if not over and vm.execute("query-migrate").get("status") not in _UNDER_WAY:
            use_key(vm, _directory(name), instance.user_id(), params["key"], "client")
            # Without the return path it is over as soon as the last byte is written. The other end may load that later,
            # or never, and then no host runs the VM.
            way_back = {"capability": "return-path", "state": True}
            vm.execute("migrate-set-capabilities", {"capabilities": [way_back]})
            vm.execute("migrate-set-parameters", {"downtime-limit": params["downtime_limit"]})
            address = f"[{params['address']}]" if ":" in params["address"] else params["address"]
            vm.execute("migrate", {"uri": f"tcp:{address}:{params['port']}"})
    result = _finished(instance.socket_of(name), params["timeout"])
    forget_key(_directory(name))
    if result["status"] != "completed":
        raise UserError(
            f"{params['workload']} was not migrated and runs here: {result.get('error-desc', result['status'])}"
        )
    return {
        "changed": True,
        "downtime_ms": result["downtime"],
        "total_ms": result["total-time"],
        "transferred_bytes": result["ram"]["transferred"],
    }


def complete(params: dict) -> dict:
    """End any migration from this host, so that QEMU's state does not change afterwards.

    One that is sending is cancelled, one that switches over is waited for.
    """
    name = vm_name(params["workload"])
    path = instance.socket_of(name)
    try:
        with Qmp(path) as vm:
            status = vm.execute("query-migrate").get("status")
            if status not in _UNDER_WAY:
                return {"changed": False}
            if status != "device":
                vm.execute("migrate_cancel")
    except QmpAbsent:
        return {"changed": False}
    _finished(path, params["timeout"])
    forget_key(_directory(name))
    return {"changed": True}


def _directory(name: str) -> Path:
    return Path(instance.socket_of(name)).parent


def _finished(path: str, timeout: float) -> dict:
    """Wait until a migration is over, or cancel it at the timeout; QMP accepts one client, so connections are short."""
    deadline = time.monotonic() + timeout
    cancelled, answer = False, {}
    # Without an end: a move that is given up is over only when QEMU says so.
    for _attempt in attempts(math.inf, shortest=_PAUSE, longest=_PAUSE):
        try:
            with Qmp(path) as vm:
                answer = vm.execute("query-migrate")
                if answer.get("status") in ("completed", "failed", "cancelled"):
                    break
                if time.monotonic() > deadline and not cancelled:
                    vm.execute("migrate_cancel")
                    cancelled = True
        except QmpAbsent:
            raise
        except QmpError:
            # During the switch-over QEMU does not serve QMP, for as long as the network delays it.
            if time.monotonic() > deadline:
                raise
    return answer


def announce(context: NodeContext, name: str) -> dict:
    """Announce its current routers to a VM that was moved to this host; return the announcements."""
    plan = load_plan(context)
    node = known_node(plan, context.node)
    if name not in plan["workloads"]:
        raise UserError(f"there is no workload {name} in the plan; write it as NAMESPACE/NAME")
    if node not in hosting_nodes(plan["workloads"][name]):
        raise UserError(f"workload {name} is not on {node}; announce on the node that it was moved to")
    announcements = render_announcements(plan, node, name)
    if announcements and context.write:
        with connected(VSWITCH_REMOTE, write=True) as client:
            switch = Switch(client)
            for announcement in announcements:
                switch.send(INTEGRATION_BRIDGE, announcement.host_name, [announcement.frame])
    return {
        "changed": bool(announcements),
        "announced": [
            {"router": announcement.router, "mac": announcement.mac, "lifetime": announcement.lifetime}
            for announcement in announcements
        ],
    }
