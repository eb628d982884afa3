# SPDX-License-Identifier: Apache-2.0
"""Runs modules for Ansible on a host that has the program already: nothing is transferred, compiled or unpacked.

`heddle-host call` reads a request from its input, one JSON document with `program`, `module`, `params`, `check_mode`
and `diff`, and writes one line of JSON. The service answers it if it runs (`resident.py`), otherwise the process does
so itself. For `heddle-host call-apart` the process always does, since what a call starts would end with the service. A
program that is made of other sources than those of the control node replies with its version only; Ansible then runs
the module itself, as on a host without the program. Options were checked by the control node
(`plugin_utils/program_call.py`).
"""

from __future__ import annotations

import importlib
import json

# Module -> the file below module_utils with its function. Only what a call needs is loaded.
CALLS = {
    "audit": ("verify.audit.compare", "audit_result"),
    "chassis": ("agent.chassis.chassis_calls", "chassis_result"),
    "chassis_info": ("verify.audit.described_host", "chassis_info_result"),
    "host_info": ("verify.audit.host_inspection", "host_info_result"),
    "host_record": ("uninstall.recording", "record_result"),
    "probe_info": ("agent.health.probes", "probe_info_result"),
    "reachability": ("verify.probing.reach", "reachability_result"),
    "readiness": ("operations.readiness_record", "readiness_result"),
    "resource": ("operations.admission_result", "resource_result"),
    "resource_info": ("operations.state_result", "resource_info_result"),
    "zone": ("verify.audit.zone_result", "zone_result"),
}
_PACKAGE = __package__.rpartition(".")[0]


def load() -> None:
    """Import all that calls need, for a process that answers many of them."""
    for file, _function in CALLS.values():
        importlib.import_module(f"{_PACKAGE}.{file}")


def answered(version: str, request: bytes) -> bytes:
    """Return the reply to one request, a line; `version` identifies the sources of this program."""
    wanted = json.loads(request)
    reply: dict = {"program": version}
    if wanted["program"] == version:
        reply["result"] = call(wanted["module"], wanted["params"], wanted["check_mode"], wanted["diff"], version)
    return f"{json.dumps(reply)}\n".encode()


def call(module: str, params: dict, check_mode: bool, diff: bool, version: str = "") -> dict:
    """Return the result of a module; `version` as in `answered`."""
    file, function = CALLS[module]
    runner = importlib.import_module(f"{_PACKAGE}.agent.module_runner")
    request = runner.Request(params, check_mode, diff, version)
    return runner.answer(getattr(importlib.import_module(f"{_PACKAGE}.{file}"), function), request)
