# SPDX-License-Identifier: Apache-2.0
"""Runs playbooks by ansible-runner, with progress, artifacts of each run, and an interrupt that ends them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import pandas

from . import temporary
from .collection import COLLECTIONS, REPOSITORY
from .problem import HeddleError, Interrupted, PlayFailed
from .progress import Progress

RESULT = "result.json"
_INTERVAL = 0.1
_LARGEST_RESULT = 2**30
# In place of ansible-playbook, which ansible-runner starts so that it outlives the process that did: ends with the
# thread that started it (PR_SET_PDEATHSIG, prctl(2)), also when a kernel is killed.
_WRAPPER = """#!{python}
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))
os.execv({program!r}, [{program!r}, *sys.argv[1:]])
"""
# In the environment of a run's processes: its identifier.
_MARK = "HEDDLE_NOTEBOOK_RUN"
_RESULTS = {"runner_on_ok": "ok", "runner_on_failed": "failed", "runner_on_unreachable": "unreachable"}


@dataclass
class Run:
    """The result of a run: `state` is successful, failed or canceled; `directory` has stdout and events."""

    name: str
    state: str
    began: str
    seconds: float
    directory: Path
    results: list[dict] = field(default_factory=list)
    stdout: str = ""

    @property
    def tasks(self) -> pandas.DataFrame:
        """Return a row for each task and host."""
        columns = ["play", "task", "host", "result", "changed", "seconds"]
        return pandas.DataFrame([{name: one[name] for name in columns} for one in self.results], columns=columns)

    @property
    def failures(self) -> pandas.DataFrame:
        """Return what failed, without what the playbook ignores; `result` is failed or unreachable."""
        columns = ["host", "task", "result", "message"]
        rows = [{name: one[name] for name in columns} for one in self.results if one["result"] != "ok"]
        return pandas.DataFrame(rows, columns=columns)

    @property
    def changes(self) -> pandas.DataFrame:
        """Return a row for each object that was changed, or in check mode would be."""
        columns = ["host", "task", "object", "before", "after"]
        rows = []
        for one in self.results:
            if one["changed"]:
                differences = one["diff"] or [{}]
                rows += [
                    [one["host"], one["task"], found.get("after_header") or found.get("before_header") or "",
                     found.get("before", ""), found.get("after", "")]
                    for found in differences
                ]  # fmt: skip
        return pandas.DataFrame(rows, columns=columns)

    @property
    def messages(self) -> dict[str, str]:
        """Return what the playbook showed, by task."""
        return {
            one["task"]: str(one["res"].get("msg", ""))
            for one in self.results
            if one["action"].endswith("debug") and not one["res"].get("failed")
        }

    def summary(self) -> dict:
        """Return what the history has of the run."""
        return {
            "name": self.name, "state": self.state, "began": self.began, "seconds": round(self.seconds, 1),
            "changed": sum(one["changed"] for one in self.results), "failed": len(self.failures),
            "directory": str(self.directory),
        }  # fmt: skip

    def _repr_html_(self) -> str:
        found = self.summary()
        lines = [" · ".join(map(str, row)) for row in self.failures.itertuples(index=False)]
        failures = "".join(f"<li>{escape(line)}</li>" for line in lines)
        return (
            f"<p><b>{escape(self.name)}</b> {escape(self.state)} · {found['seconds']} s · {found['changed']} changed · "
            f"{found['failed']} failed<br><span style='opacity: 0.65'>{escape(str(self.directory))}</span></p>"
            f"<ul>{failures}</ul>"
        )


class _Follower:
    """Receives events in the thread of ansible-runner; the main thread draws them."""

    def __init__(self, stop_after: str) -> None:
        self.waiting: queue.SimpleQueue = queue.SimpleQueue()
        self.canceled = False
        self.stop_after = stop_after

    def event(self, event: dict) -> bool:
        self.waiting.put(event)
        if self.stop_after and event["event"] in _RESULTS and event["event_data"].get("task") == self.stop_after:
            self.canceled = True
        return True


def environment(first: Path | None = None) -> dict[str, str]:
    """Return the environment of ansible-playbook: collection, the project's settings, Mitogen if it is there.

    `first` is a directory of programs that stands before all others.
    """
    # The kernel of a notebook may run without the PATH of its virtual environment.
    places = [*((str(first),) if first else ()), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    found = {
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_FORCE_COLOR": "false",
        # ansible-runner leaves out larger results (700,000 characters by default), such as packets of a capture.
        "MAX_EVENT_RES": str(_LARGEST_RESULT),
        "PATH": os.pathsep.join(places),
    }
    settings = REPOSITORY / "ansible.cfg"
    if settings.is_file() and "ANSIBLE_CONFIG" not in os.environ:
        found["ANSIBLE_CONFIG"] = str(settings)
    elif not settings.is_file():
        # Manifests may stand beside the inventory and are none.
        found |= {"ANSIBLE_INVENTORY_IGNORE_REGEX": "^manifests$", "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true"}
    mitogen = importlib.util.find_spec("ansible_mitogen")
    if mitogen is not None and os.environ.get("MITOGEN", "1") != "0":
        found |= {
            "ANSIBLE_STRATEGY_PLUGINS": str(Path(mitogen.origin).parent / "plugins" / "strategy"),
            "ANSIBLE_STRATEGY": "mitogen_linear",
            "ANSIBLE_DEPRECATION_WARNINGS": "false",
        }
    return found


def _programs(private: Path) -> Path:
    """Return a directory with the program that ansible-runner starts."""
    directory = private / "programs"
    directory.mkdir()
    program = shutil.which("ansible-playbook", path=environment()["PATH"])
    if program is None:
        raise HeddleError("ansible-playbook is missing; run pip install ./notebooks")
    if sys.platform == "linux":
        wrapper = directory / "ansible-playbook"
        wrapper.write_text(_WRAPPER.format(python=sys.executable, program=program), encoding="utf-8")
        wrapper.chmod(0o700)
    return directory


def _kill_workers(identifier: str) -> None:
    """Kill what ansible-playbook left: its workers are in sessions of their own, which ansible-runner does not know."""
    mark = f"{_MARK}={identifier}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_worker = b"ansible-playbook" in (process / "cmdline").read_bytes()
            if is_worker and mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def run(name: str, artifacts: Path, *, live: bool | None = None, stop_after: str = "", **arguments) -> Run:
    """Run what the arguments of `ansible_runner.run` name, and return its result, whatever it is.

    Artifacts go below `artifacts`, a directory for each run. KeyboardInterrupt ends Ansible and raises Interrupted, and
    so does the end of the task `stop_after`: all of Ansible's processes are killed then.
    """
    try:
        import ansible_runner
    except ImportError:
        raise HeddleError("ansible-runner is missing; run pip install ./notebooks") from None
    began = datetime.now(UTC)
    # Two notebooks may begin in one second.
    slug = re.sub(r"[^0-9A-Za-z_]+", "-", name).strip("-")
    identifier = f"{began:%Y%m%dT%H%M%SZ}-{slug}-{os.getpid()}-{time.monotonic_ns() % 1000:03}"
    follower, progress = _Follower(stop_after), Progress(name, live)
    result = Run(name, "canceled", began.isoformat(timespec="seconds"), 0.0, artifacts / identifier)
    with temporary.directory("heddle-run-") as private:
        thread, runner = ansible_runner.run_async(
            private_data_dir=str(private), artifact_dir=str(artifacts), ident=identifier, quiet=True,
            event_handler=follower.event, cancel_callback=lambda: follower.canceled,
            envvars={**environment(_programs(private)), _MARK: identifier},
            settings={"pexpect_timeout": 1, "suppress_env_files": False}, **arguments,
        )  # fmt: skip
        while thread.is_alive() or not follower.waiting.empty():
            try:
                thread.join(_INTERVAL)
                _follow(follower, progress, result)
                progress.draw()
            except KeyboardInterrupt:
                follower.canceled = True
        interrupted = follower.canceled
        if interrupted:
            _kill_workers(identifier)
        result.state = "canceled" if interrupted else runner.status
        result.stdout = _text(result.directory / "stdout")
    result.seconds = time.monotonic() - progress.began
    progress.end("interrupted" if interrupted else result.state)
    if result.directory.is_dir():
        (result.directory / RESULT).write_text(json.dumps(result.summary(), indent=2) + "\n", encoding="utf-8")
    if interrupted:
        raise Interrupted(f"{name} was interrupted; run it again, it completes what it began")
    return result


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _follow(follower: _Follower, progress: Progress, result: Run) -> None:
    while not follower.waiting.empty():
        event = follower.waiting.get()
        progress.event(event)
        kind, data = event["event"], event.get("event_data", {})
        if kind not in _RESULTS:
            continue
        res = data.get("res") or {}
        ignored = data.get("ignore_errors") and kind == "runner_on_failed"
        diff = [one for item in [res, *(res.get("results") or ())] if isinstance(item, dict) for one in _diff(item)]
        result.results.append({
            "play": data.get("play", ""), "task": data.get("task", ""), "host": data.get("host", ""),
            "action": data.get("resolved_action") or data.get("task_action") or "",
            "result": "ok" if ignored else _RESULTS[kind], "changed": bool(res.get("changed")),
            "seconds": round(data.get("duration") or 0.0, 2), "diff": diff, "message": _message(res), "res": res,
        })  # fmt: skip


def _diff(result: dict) -> list[dict]:
    found = result.get("diff") or []
    return [one for one in (found if isinstance(found, list) else [found]) if one]


def _message(result: dict) -> str:
    """Return why a task failed."""
    said = result.get("msg") or ""
    if result.get("rc"):
        # Of a command, what it said is more than that it failed.
        said = next((line for line in map(result.get, ("stderr", "stdout")) if line and line.strip()), said)
        said = said.strip().splitlines()[-1]
    failed = [one for one in result.get("results") or () if isinstance(one, dict) and one.get("failed")]
    return _message(failed[0]) if failed and not result.get("stderr") else str(said).strip()


def required(run_: Run) -> Run:
    """Return a run that succeeded; PlayFailed with host, task and message otherwise."""
    if run_.state == "successful":
        return run_
    rows = list(run_.failures.itertuples(index=False))
    if rows:
        first = rows[0]
        more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
        reason = f"{first.host}: {first.task}: {first.message.splitlines()[0] if first.message else 'no message'}{more}"
        absent = list(dict.fromkeys(row.host for row in rows if row.result == "unreachable"))
        if absent:
            reason += f"; bring {', '.join(absent)} up and run it again, it completes what it began"
    else:
        reason = _not_started(run_.stdout)
    raise PlayFailed(f"{run_.name} failed: {reason}; all output is in {run_.directory}/stdout", run_)


def _not_started(said: str) -> str:
    """Return why Ansible ran no task: the inventory that does not parse, its first error, or its last line."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", said)
    # Ansible breaks lines at the width of a terminal.
    inventory = re.search(r"Unable to parse\s+(\S+)\s+as an\s+inventory\s+source", text)
    if inventory:
        return f"Unable to parse {inventory[1]} as an inventory source; correct it (ansible-inventory --list shows why)"
    error = re.search(r"\[ERROR\]: (.+)", text)
    return error[1] if error else next(iter(text.strip().splitlines()[-1:]), "Ansible did not start")
