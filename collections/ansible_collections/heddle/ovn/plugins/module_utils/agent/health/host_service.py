# SPDX-License-Identifier: Apache-2.0
"""Whether the service `heddle-host` runs: by a lock that it holds, and else by what systemd reports of its unit."""

from __future__ import annotations

import contextlib
import os
import time

from ...common.errors import EngineError
from ...common.files.daemon_report import is_running, only_daemon
from ...common.processes import subprocesses

# There is no report; the lock beside this name is held by the service alone and by the copies that answer calls for it.
HOST_SERVICE = "/run/heddle/host"
UNIT, UNIT_FILE = "heddle-host", "/etc/systemd/system/heddle-host.service"
# States of the unit. A service that ended by itself and is started again may do so for ever.
RUNS, STARTS, STARTS_AGAIN, STOPPED = "runs", "starts", "starts again", "stopped"
_POLL_SECONDS = 0.2


def show_running(held: contextlib.ExitStack) -> bool:
    """Hold the service's lock as long as `held` is open; return whether that worked.

    It may not for a moment, while another process looks whether it is held, or a copy of a former service ends.
    """
    try:
        os.makedirs(os.path.dirname(HOST_SERVICE), mode=0o755, exist_ok=True)
        held.enter_context(only_daemon(HOST_SERVICE))
    except OSError:
        return False
    return True


def stopped_host_service(patience: float = 0.0) -> dict[str, str]:
    """Return a line with the remedy when this host has the service and it does not run.

    A service that is being started or restarted counts as running. With `patience`, one that has not applied anything
    yet is waited for, that many seconds: only then does it show whether it fails.
    """
    if not is_stopped(patience):
        return {}
    return {UNIT: f"{UNIT} does not run: systemctl start {UNIT} (its log: journalctl -u {UNIT})"}


def is_stopped(patience: float = 0.0, run: subprocesses.Run = subprocesses.run) -> bool:
    """Return whether this host has the service and it does not run, as above."""
    deadline = time.monotonic() + patience
    while not is_running(HOST_SERVICE) and os.path.exists(UNIT_FILE):
        state = unit_state(run)
        if state not in (STARTS, STARTS_AGAIN) or time.monotonic() >= deadline:
            return state in (STARTS_AGAIN, STOPPED)
        time.sleep(_POLL_SECONDS)
    return False


def unit_state(run: subprocesses.Run = subprocesses.run) -> str:
    """Return the state of the unit, whose service does not hold the lock.

    Where systemd does not answer, nothing shows that the service is stopped.
    """
    try:
        text = run(["systemctl", "show", "--property=ActiveState,SubState,NRestarts,Job", f"{UNIT}.service"], "")
    except EngineError:
        return RUNS
    found = dict(line.partition("=")[::2] for line in text.splitlines())
    active, restarts = found.get("ActiveState", ""), found.get("NRestarts", "0")
    if active in ("active", "reloading"):
        # The service of a release that had no such lock.
        return RUNS
    if found.get("SubState", "").startswith("auto-restart"):
        return STARTS_AGAIN
    if active == "activating":
        return STARTS if restarts == "0" else STARTS_AGAIN
    if found.get("Job"):
        return STARTS
    return STARTS_AGAIN if active == "deactivating" else STOPPED
