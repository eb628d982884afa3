# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ansible-playbook: one line of progress, failures in full, tables at the end."""

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: One line of progress, failures in full, tables at the end
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Shows how far a run is, in one line that is drawn anew - seconds, play, hosts, tasks done of all, what runs where.
    Without a terminal, or without the Python package C(rich), there is a line for each play, and one now and then in
    between.
  - Failures are shown at once with host, task and message. The results of M(ansible.builtin.debug), warnings and, with
    C(--diff), all differences are shown as well.
  - At the end there is a table of the hosts and one of the plays with seconds.
  - What the default callback prints goes to a log file, or with O(verbose) or C(-v) to the terminal as well. Below the
    name of each task there are the seconds since the beginning.
  - What tasks with C(no_log) hide is hidden here too.
requirements:
  - set as stdout in configuration
  - C(rich), a Python package, for the line that is drawn anew
  - ansible-core 2.19 or later
extends_documentation_fragment:
  - default_callback
  - result_format_callback
options:
  log_directory:
    description:
      - Directory of log files, made if missing for its owner alone. A relative one is below the current directory.
      - A run replaces the log of the previous run of the same playbook.
      - Empty for no log.
    type: str
    default: report/logs
    env:
      - name: HEDDLE_LOG_DIRECTORY
    ini:
      - section: callback_progress
        key: log_directory
  verbose:
    description: Whether to print what the default callback prints, instead of progress.
    type: bool
    default: false
    env:
      - name: HEDDLE_VERBOSE
    ini:
      - section: callback_progress
        key: verbose
  interval:
    description: Seconds between two lines on a play that takes long, where there is no terminal.
    type: float
    default: 15
    env:
      - name: HEDDLE_PROGRESS_INTERVAL
    ini:
      - section: callback_progress
        key: interval
  stream:
    description:
      - File to append events to, a line of JSON each, for a program that shows the progress of several commands.
    type: path
    env:
      - name: HEDDLE_PROGRESS_STREAM
    ini:
      - section: callback_progress
        key: stream
"""

from pathlib import Path

from ansible import constants as C
from ansible import context
from ansible.playbook.block import Block
from ansible.plugins.callback.default import CallbackModule as DefaultCallback

from ansible_collections.heddle.ovn.plugins.plugin_utils.import_cache import start
from ansible_collections.heddle.ovn.plugins.plugin_utils.progress_display import LogDisplay, Screen, Stream, open_log
from ansible_collections.heddle.ovn.plugins.plugin_utils.progress_record import Record
from ansible_collections.heddle.ovn.plugins.plugin_utils.progress_text import (
    clean,
    failure_text,
    indented,
    number,
    table,
)

DEBUG_ACTIONS = frozenset(("debug", "ansible.builtin.debug", "ansible.legacy.debug"))
# These prompt at the terminal.
ASKING_ACTIONS = frozenset(("pause", "ansible.builtin.pause", "ansible.legacy.pause"))
META_ACTIONS = frozenset(("meta", "ansible.builtin.meta", "ansible.legacy.meta"))


def tasks_of(play) -> set[str]:
    """Return the uuids of the tasks that a play is going to run if nothing fails, after the choice by tags.

    Included files are not read before they are run, so only the task that includes them is among these.
    """
    found: set[str] = set()

    def walk(tasks) -> None:
        for task in tasks:
            if isinstance(task, Block):
                walk([*task.block, *task.always])
            elif not task.implicit and task.action not in META_ACTIONS:
                found.add(task._uuid)

    try:
        walk([block.filter_tagged_tasks({}) for block in play.compile()])
    except Exception:
        # Tags may hold variables that are not there yet. The count is for show, and no reason to end the run.
        return set()
    return found


class CallbackModule(DefaultCallback):
    """Writes the default callback's output to a log, and a short summary of the run to the terminal."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "heddle.ovn.progress"

    def __init__(self) -> None:
        super().__init__()
        start()
        self._record = Record()
        self._screen = Screen(self._display, self._line, 15)
        self._stream = Stream(None)
        self._real_display = self._display
        self._verbose = False
        self._log_path: Path | None = None
        self._playbook = ""
        # Failures of the current task: the same message once, with all hosts that have it.
        self._failures: dict[tuple[str, str], list[str]] = {}

    def set_options(self, task_keys=None, var_options=None, direct=None) -> None:
        """Read the options."""
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        self._verbose = self.get_option("verbose") or self._real_display.verbosity > 0
        self._screen = Screen(self._real_display, self._line, self.get_option("interval"))
        self._stream = Stream(self.get_option("stream"))
        self._display = LogDisplay(self._real_display, None, self._verbose)

    def _line(self) -> str:
        return self._record.line()

    def _show(self, text: str, color: str | None = None) -> None:
        if not self._verbose:
            self._screen.show(text, color)

    def _update(self) -> None:
        """Send the current state to the program that reads the stream."""
        self._stream.send(**self._record.state())

    def v2_playbook_on_start(self, playbook) -> None:
        """Open the log, print the playbook and its modes, and count the tasks."""
        # One command may run several playbooks, one after the other.
        self._record = Record()
        self._playbook = name = Path(playbook._file_name).stem
        directory = self.get_option("log_directory")
        if directory:
            try:
                self._display.log = open_log(Path(directory), f"{name}.log")
                self._log_path = Path(directory, f"{name}.log")
            except OSError as error:
                self._real_display.warning(
                    f"no log is written: {error}; choose another directory with HEDDLE_LOG_DIRECTORY, or none"
                )
        modes = [("check mode: nothing is changed", "check"), ("with differences", "diff")]
        chosen = [text for text, option in modes if context.CLIARGS.get(option)]
        self._show(f"{name}.yml" + (f" ({', '.join(chosen)})" if chosen else ""), C.COLOR_HIGHLIGHT)
        super().v2_playbook_on_start(playbook)
        for play in playbook.get_plays():
            self._record.plan(play._uuid, clean(play.get_name()).strip(), tasks_of(play))

    def v2_playbook_on_play_start(self, play) -> None:
        """Begin a play, or the next batch of its hosts."""
        self._end_play()
        self._record.start_play(play._uuid, clean(play.get_name()).strip(), tasks_of(play))
        super().v2_playbook_on_play_start(play)
        self._update()
        if not self._verbose:
            self._screen.start()

    def v2_playbook_on_vars_prompt(self, *arguments, **options) -> None:
        """Stop the live line while a question is on the terminal."""
        self._screen.stop()
        super().v2_playbook_on_vars_prompt(*arguments, **options)

    def _task_start(self, task, prefix=None) -> None:
        self._show_failures()
        self._record.start_task(task._uuid, clean(task.get_name()).strip())
        super()._task_start(task, prefix=prefix)
        self._update()
        if task.action in ASKING_ACTIONS:
            self._screen.stop()
        elif not self._verbose:
            self._screen.start()

    def _print_task_banner(self, task) -> None:
        super()._print_task_banner(task)
        self._display.display(f"after {self._record.elapsed():.1f} s")

    def v2_runner_on_start(self, host, task) -> None:
        """Record where the task runs."""
        self._record.start_host(host.get_name())
        super().v2_runner_on_start(host, task)
        self._update()

    def _end_host(self, result) -> None:
        if result.task._uuid == self._record.task_uuid:
            self._record.end_host(result.host.get_name())
        self._update()

    def v2_runner_on_ok(self, result) -> None:
        """Show the output of a task."""
        self._end_host(result)
        if result.task.action in DEBUG_ACTIONS and not result.task.loop:
            self._present(result)
        super().v2_runner_on_ok(result)

    def v2_runner_item_on_ok(self, result) -> None:
        """Show the output of a task's item."""
        if result.task.action in DEBUG_ACTIONS:
            self._present(result)
        super().v2_runner_item_on_ok(result)

    def _present(self, result) -> None:
        found = dict(result.result)
        if "censored" in found or found.get("_ansible_no_log"):
            return
        shown = found.get("msg")
        if shown is None:
            self._clean_results(found, result.task.action)
            shown = self._dump_results(found)
        elif isinstance(shown, list) and all(isinstance(line, str) for line in shown):
            shown = "\n".join(shown)
        elif not isinstance(shown, str):
            shown = self._dump_results({"msg": shown})
        text = clean(shown).strip("\n")
        if text:
            if len(self._record.asked) > 1:
                text = f"{result.host.get_name()}:{chr(10) if chr(10) in text else ' '}{text}"
            self._show(f"\n{text}\n" if "\n" in text else text)
            self._stream.send(shown=text)

    def v2_runner_on_skipped(self, result) -> None:
        """Record that a host has finished the task."""
        self._end_host(result)
        super().v2_runner_on_skipped(result)

    def v2_runner_on_failed(self, result, ignore_errors=False) -> None:
        """Show why a task failed, unless the playbook ignores it."""
        self._end_host(result)
        if not ignore_errors:
            self._fail(result, "FAILED")
        super().v2_runner_on_failed(result, ignore_errors=ignore_errors)

    def v2_runner_on_unreachable(self, result) -> None:
        """Show that a host does not answer, unless the playbook ignores it."""
        self._end_host(result)
        if not result.task.ignore_unreachable:
            self._fail(result, "UNREACHABLE")
        super().v2_runner_on_unreachable(result)

    def _fail(self, result, kind: str) -> None:
        name = f"{kind}  {clean(result.task.get_name()).strip()}"
        self._failures.setdefault((name, failure_text(result.result)), []).append(result.host.get_name())

    def _show_failures(self) -> None:
        for (name, message), hosts in self._failures.items():
            self._show(f"\n{name}  on {' '.join(hosts)}\n{indented(message)}\n", C.COLOR_ERROR)
            self._stream.send(failed=name, on=hosts, message=message)
        self._failures.clear()

    def _handle_exception(self, result, use_stderr=False) -> None:
        # Ansible keeps the exception, with its message, of a task whose result no_log hides.
        if "censored" in result or result.get("_ansible_no_log"):
            result.pop("exception", None)
        super()._handle_exception(result, use_stderr=use_stderr)

    def v2_on_file_diff(self, result) -> None:
        """Show differences."""
        with self._display.caught() as texts:
            super().v2_on_file_diff(result)
        if texts:
            self._show(f"\n{result.host.get_name()}: {clean(result.task.get_name()).strip()}")
            for text in texts:
                self._show(text.rstrip("\n"))

    def _end_play(self) -> None:
        self._show_failures()
        play = self._record.end_play()
        if play is not None and play.hosts and not self._screen.live:
            counts = f"{number(len(play.hosts), 'host')}, {number(len(play.started), 'task')}"
            self._show(f"{play.seconds:7.1f} s  {play.name}: {counts}")

    def v2_playbook_on_no_hosts_matched(self) -> None:
        """Report that a play found no hosts."""
        if self._record.current is not None:
            self._show(f"{self._record.current.name}: no hosts matched")
        super().v2_playbook_on_no_hosts_matched()

    def v2_playbook_on_stats(self, stats) -> None:
        """Show the tables of hosts and plays, and the path of the log."""
        self._end_play()
        self._screen.stop()
        super().v2_playbook_on_stats(stats)
        rows = []
        for host in sorted(stats.processed):
            counts = stats.summarize(host)
            rows.append([host, *(counts[name] for name in ("ok", "changed", "failures", "unreachable"))])
        plays = [[play.name, f"{play.seconds:.1f}"] for play in self._record.plays.values() if play.hosts]
        plays.append(["total", f"{self._record.elapsed():.1f}"])
        lines = ["", *table(["play", "seconds"], plays), ""]
        lines += [*table(["host", "ok", "changed", "failed", "unreachable"], rows), ""] if rows else []
        lines += [f"log: {self._log_path}"] if self._log_path else []
        lines += ["check mode: nothing was changed"] if context.CLIARGS.get("check") else []
        self._show("\n".join(lines))
        failed = [row[0] for row in rows if row[3] or row[4]]
        self._stream.send(ended=self._playbook, seconds=round(self._record.elapsed(), 1), hosts_failed=failed)
