# SPDX-License-Identifier: Apache-2.0
"""Progress of a playbook: counting, failure messages, and the real ansible-playbook with the plugin."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.plugin_utils.progress_display import open_log
from ansible_collections.heddle.ovn.plugins.plugin_utils.progress_record import Record
from ansible_collections.heddle.ovn.plugins.plugin_utils.progress_text import OUTPUT_LINES, clean, failure_text

# Without the tasks that run modules, which take most of the time.
QUICK = ("--skip-tags", "modules")
ROOT = Path(__file__).resolve().parents[3]
PLAYBOOK = """
- name: First
  hosts: all
  gather_facts: false
  tasks:
    - name: Present
      ansible.builtin.debug:
        msg: "line one\\nline two"
      run_once: true
    - name: Write
      ansible.builtin.copy:
        content: "wanted\\n"
        dest: "{{ directory }}/{{ inventory_hostname }}"
        mode: "0600"
      tags: modules
    - name: Include
      ansible.builtin.include_tasks: more.yml
    - name: Secret of the task
      ansible.builtin.command: "sh -c 'echo sesame; exit 1'"
      no_log: true
      ignore_errors: true
      when: not ansible_check_mode
      tags: modules
    - name: Secret that fails
      ansible.builtin.fail:
        msg: sesame
      no_log: true
      when: fail_secret is defined
    - name: Fail
      ansible.builtin.fail:
        msg: "no such uplink; name another one"
      when: fail is defined and inventory_hostname != 'three'
- name: Second
  hosts: one
  gather_facts: false
  tasks:
    - name: Last
      ansible.builtin.debug:
        msg: the end
"""
MORE = "- name: Included\n  ansible.builtin.debug:\n    msg: included\n  run_once: true\n"


@pytest.fixture
def run(tmp_path):
    """Run the playbook on three hosts that are this one; returns the process, its log and its events."""
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    (tmp_path / "more.yml").write_text(MORE)

    def call(*arguments: str, terminal: bool = False, **environment: str):
        values = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "HEDDLE_"))},
            "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "heddle.ovn.progress",
            "HEDDLE_LOG_DIRECTORY": str(tmp_path / "logs"),
            "HEDDLE_PROGRESS_STREAM": str(tmp_path / "stream"),
            "TERM": "xterm",
            **environment,
        }
        (tmp_path / "ansible.cfg").touch()
        command = [
            *(str(Path(sys.executable).parent / "ansible-playbook"), "-i", "one,two,three,", "-c", "local"),
            *("-e", f"directory={tmp_path}", "-e", f"ansible_python_interpreter={sys.executable}"),
            *(str(tmp_path / "play.yml"), *arguments),
        ]
        options = {"cwd": tmp_path, "env": values, "stdin": subprocess.DEVNULL, "check": False}
        if terminal:
            return on_a_terminal(command, **options)
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)

    return call


def on_a_terminal(command, **options):
    """Run a command with a terminal as output; returns what was written there."""
    options.pop("check")
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdout=slave, stderr=slave, **options) as process:
        os.close(slave)
        written = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            written += part
    os.close(master)
    return subprocess.CompletedProcess(command, process.returncode, written.decode())


def events(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "stream").read_text().splitlines()]


def test_a_run_shows_results_and_tables_counts_its_tasks_and_keeps_the_default_output_as_a_log(run, tmp_path):
    done = run()
    assert done.returncode == 0, done.stdout
    assert "\none:\n" not in done.stdout
    assert "\nline one\nline two\n" in done.stdout
    assert "TASK [" not in done.stdout
    assert ["three", "4", "1", "0", "0"] not in [line.split() for line in done.stdout.splitlines()[:3]]
    table = [line.split() for line in done.stdout.splitlines()]
    assert ["host", "ok", "changed", "failed", "unreachable"] in table
    assert any(row[:1] == ["two"] and row[2:] == ["2", "0", "0"] for row in table), done.stdout
    log = tmp_path / "logs" / "play.log"
    assert f"log: {log}" in done.stdout
    assert re.search(r"^TASK \[Write\] \*+\nafter \d+\.\d s$", log.read_text(), re.MULTILINE)
    assert "PLAY RECAP" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    assert "sesame" not in done.stdout + log.read_text() + (tmp_path / "stream").read_text()
    # The count is that of the tasks, and never more than all of them.
    states = [event for event in events(tmp_path) if "done" in event]
    # Six of the first play and one of the second; the included one is known when it starts.
    assert states[0]["of"] == 7
    assert states[-1]["of"] == 8
    counts = [event["done"] for event in states]
    assert counts == sorted(counts)
    assert all(event["done"] < event["of"] for event in states)
    assert counts[-1] == 7


def test_a_failure_is_shown_once_with_all_its_hosts_and_its_message(run, tmp_path):
    done = run("-e", "fail=1", *QUICK)
    assert done.returncode == 2
    assert done.stdout.count("no such uplink; name another one") == 1
    line = next(line for line in done.stdout.splitlines() if line.startswith("FAILED"))
    assert {*line.split()} == {"FAILED", "Fail", "on", "one", "two"}
    failed = [event for event in events(tmp_path) if "failed" in event]
    assert [event["message"] for event in failed] == ["no such uplink; name another one"]


def test_no_log_hides_failures_too(run, tmp_path):
    done = run("-e", "fail_secret=1", "--diff", *QUICK)
    everything = done.stdout + (tmp_path / "logs" / "play.log").read_text() + (tmp_path / "stream").read_text()
    assert "FAILED  Secret that fails" in done.stdout
    assert "output has been hidden" in done.stdout
    assert "sesame" not in everything


def test_check_mode_and_differences_are_shown(run, tmp_path):
    done = run("--check", "--diff")
    assert done.stdout.startswith("play.yml (check mode: nothing is changed, with differences)\n")
    assert done.stdout.count("\n+wanted\n") == 3
    assert done.stdout.endswith("check mode: nothing was changed\n")
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [pytest.param(("-v",), {}, marks=pytest.mark.long), ((), {"HEDDLE_VERBOSE": "1"})],
    ids=["option", "variable"],
)
def test_verbose_prints_the_default_output(run, arguments, environment):
    done = run(*arguments, *QUICK, **environment)
    assert "TASK [Present]" in done.stdout
    assert "PLAY RECAP" in done.stdout
    assert "host  " not in done.stdout


def test_a_log_that_cannot_be_written_is_a_warning(run, tmp_path):
    (tmp_path / "logs").touch()
    done = run(*QUICK)
    assert done.returncode == 0
    assert "no log is written" in done.stdout
    assert "log: " not in done.stdout


def test_a_terminal_has_a_live_line_and_gets_its_cursor_back(run):
    done = run(*QUICK, terminal=True)
    assert "\x1b[?25l" in done.stdout
    assert done.stdout.rindex("\x1b[?25h") > done.stdout.rindex("\x1b[?25l")
    assert "line one" in done.stdout


def test_without_rich_there_are_plain_lines(run, tmp_path):
    (tmp_path / "without" / "rich").mkdir(parents=True)
    (tmp_path / "without" / "rich" / "__init__.py").write_text("raise ImportError('not here')\n")
    done = run(*QUICK, terminal=True, PYTHONPATH=str(tmp_path / "without"))
    assert done.returncode == 0
    assert "\x1b[?25l" not in done.stdout
    assert "First: 3 hosts" in done.stdout


def test_batches_of_a_play_never_count_backwards():
    record = Record(clock=iter(range(100)).__next__)
    record.plan("a", "A", {"t1", "t2"})
    record.plan("b", "B", {"t3"})
    seen = []
    for batch in ("one", "two"):
        record.start_play("a", "A", set())
        for task in ("t1", "t2"):
            record.start_task(task, task)
            record.start_host(batch)
            seen.append((record.done, record.total))
            record.end_host(batch)
    record.start_play("b", "B", set())
    record.start_task("handler", "a handler")
    seen.append((record.done, record.total))
    assert seen == [(0, 3), (1, 3), (2, 3), (2, 3), (2, 4)]
    record.end_play()
    assert (record.done, record.total) == (4, 4)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"msg": "bad; do that"}, "bad; do that"),
        ({"msg": "non-zero return code", "stderr": "why\n", "stdout": "other"}, "non-zero return code\nwhy"),
        ({"msg": "non-zero return code", "stderr": "", "stdout": "only\n"}, "non-zero return code\nonly"),
        ({"censored": "hidden", "msg": "sesame"}, "hidden"),
        ({"msg": "items", "results": [{"item": "a", "failed": True, "msg": "x"}, {"item": "b"}]}, "a: x"),
        ({"msg": "\x1b[31mred\x1b[0m\x07\x1b]0;title\x07 end"}, "red end"),
        ({}, "it failed without a message"),
    ],
)
def test_failure_messages(result, text):
    assert failure_text(result) == text


def test_long_output_is_truncated_at_its_beginning_with_a_note():
    shown = failure_text({"msg": "bad", "stderr": "\n".join(f"line {number}" for number in range(500))})
    assert f"(the last {OUTPUT_LINES} of 500 lines)" in shown
    assert shown.endswith("line 499")
    assert "line 459\n" not in shown


def test_control_characters_are_removed_and_lines_kept():
    assert clean("a\r\n\tb\x00\x9b31m") == "a\n\tb31m"


def test_log_replaces_a_symlink_without_following_it(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "play.log").symlink_to(tmp_path / "target")
    with open_log(tmp_path, "play.log") as file:
        file.write("x")
    assert (tmp_path / "target").read_text() == "mine"
    assert not (tmp_path / "play.log").is_symlink()
