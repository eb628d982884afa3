# SPDX-License-Identifier: Apache-2.0
"""The steps of a measurement: start a process on each host, have all search, then end all. Implements `underlay_probe`.

A step begins on a host when the one before has ended on all of them, so that every host answers as long as others send.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass

from ..common.files.atomic_file import replace_file
from ..common.files.json_file import read_json
from ..common.processes.background_process import began, end, is_running, spawn
from .prober import LOOK_SECONDS, Prober, Task

DIRECTORY = "/run/heddle"
STARTED, MEASURED, FINISHED = "started", "measured", "finished"
# Seconds after which a process ends that no run of Ansible ends.
LIFETIME = 900.0


class NotMeasured(Exception):
    """The process cannot be started or has ended; the text says why."""


@dataclass(frozen=True)
class _Files:
    directory: str

    def path(self, name: str) -> str:
        return os.path.join(self.directory, f"underlay-{name}.json")


def measure(state: str, task: Task | None, directory: str = DIRECTORY) -> dict:
    """Return the result of one step on this host: `problems`, `sent` or `received`.

    NotMeasured says what prevents it.
    """
    files = _Files(directory)
    if state == STARTED:
        return _start(files, task)
    process = read_json(files.path("process"))
    replace_file(files.path("command"), json.dumps(state), mode=0o600, durable=False)
    while not os.path.exists(files.path(state)):
        if not process or not is_running(process["pid"], process["began"]):
            if os.path.exists(files.path(state)):
                break
            raise NotMeasured("the process that probes the underlay has ended; run the playbook again")
        time.sleep(LOOK_SECONDS)
    found = read_json(files.path(state))
    if state == FINISHED:
        end(process["pid"], process["began"])
        _remove(files)
    return found


def _start(files: _Files, task: Task) -> dict[str, str]:
    process = read_json(files.path("process"))
    if process:
        end(process["pid"], process["began"])
    os.makedirs(files.directory, mode=0o755, exist_ok=True)
    _remove(files)
    try:
        prober = Prober(task)
    except OSError as error:
        raise NotMeasured(f"the underlay cannot be probed: {error.strerror or error}") from error
    prober.close()
    number = spawn(lambda: _run(task, files), lambda *_signal: os._exit(0))
    replace_file(
        files.path("process"), json.dumps({"pid": number, "began": began(number)}), mode=0o600, durable=False
    )  # fmt: skip
    # Until its sockets are open, it would miss what hosts send that are faster.
    while not os.path.exists(files.path(STARTED)):
        if began(number) is None:
            raise NotMeasured("the process that probes the underlay has ended; run the playbook again")
        time.sleep(LOOK_SECONDS)
    return read_json(files.path(STARTED))


def _run(task: Task, files: _Files) -> None:
    """Do what the command says, and write the results, each to a file of its own."""
    prober, ends = Prober(task), time.monotonic() + LIFETIME
    replace_file(files.path(STARTED), json.dumps(prober.problems), mode=0o600, durable=False)
    searching = written = False
    while time.monotonic() < ends:
        prober.step()
        command = read_json(files.path("command"))
        if command == MEASURED and not searching:
            searching = True
            prober.search()
        if searching and not written and prober.is_finished:
            written = True
            replace_file(files.path(MEASURED), json.dumps(prober.sent()), mode=0o600, durable=False)
        if command == FINISHED:
            # What has arrived up to now, even if this process was not scheduled meanwhile.
            prober.step()
            replace_file(files.path(FINISHED), json.dumps(prober.received), mode=0o600, durable=False)
            return


def _remove(files: _Files) -> None:
    for name in ("process", "command", STARTED, MEASURED, FINISHED):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(files.path(name))
