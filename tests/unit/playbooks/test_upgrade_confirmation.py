# SPDX-License-Identifier: Apache-2.0
"""heddle_upgrade_confirm and heddle_upgrade_pause: the real playbook and roles, at a terminal.

The modules that read and write hosts are replaced by ones that only record that they ran.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.run_tests import mitogen

ROOT = Path(__file__).resolve().parents[3]
SURVEY = {
    "open": True, "goal": "2.0", "versions": {"node1": "1.0", "node2": "1.0"}, "last_changed": [],
    "batches": [["node1"], ["node2"]], "moves": [], "blockers": [], "notes": [],
}  # fmt: skip
RESULTS = {
    "layer2_upgrade_info": {
        "survey": SURVEY, "blockers": [], "drain": {"moves": [], "blockers": []}, "forwards": True, "document": "plan",
    },
    "layer2_upgrade": {"moved": [], "document": "plan", "changed": True},
    "zone": {"changes": {}},
}  # fmt: skip
RECORDER = """#!/usr/bin/python
import json, os, time
from ansible.module_utils.basic import AnsibleModule, _load_params
given = {name: value for name, value in _load_params().items() if not name.startswith("_ansible")}
module = AnsibleModule({name: {"type": "raw"} for name in given})
with open(os.environ["RECORD"], "a") as record:
    record.write(json.dumps([time.time(), %r, given.get("step"), given.get("nodes")]) + "\\n")
module.exit_json(**{"changed": False, **json.loads(%r)})
"""
ASK_DRAIN, ASK_CLEAN_UP = "Drain node1 and change to transit-router?", "Remove the legacy topology, without rollback?"
DEADLINE = 300


@pytest.fixture
def upgrade(tmp_path):
    """A function `(batches, **variables) -> (command, environment, steps)`; `steps()` are those that were performed."""
    source = ROOT / "collections" / "ansible_collections" / "heddle" / "ovn"
    copy = tmp_path / "collections" / "ansible_collections" / "heddle" / "ovn"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    # One host is enough: what is tested happens once for all of them.
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {
        "heddle_nodes": {
            "hosts": {"node1": {**local, "heddle_encap_ips": ["198.18.1.11"], "heddle_underlay_interface": "eth1"}}
        },
        "heddle_state": {"hosts": {"node1": None}},
        "ungrouped": {"hosts": {"localhost": local}},
    }
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory))
    record = tmp_path / "record"
    record.touch()
    settings = {
        "heddle_upgrade_traffic": False, "heddle_upgrade_verify": False, "heddle_upgrade_neighbour_wait": 0,
        "heddle_report_directory": str(tmp_path / "report"), "heddle_manifests": str(tmp_path),
    }  # fmt: skip
    environment = {
        **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"), "RECORD": str(record),
        "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "default", "COLUMNS": "200", **mitogen(),
    }  # fmt: skip
    program = str(Path(sys.executable).parent / "ansible-playbook")

    def steps() -> list[list]:
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        return [[moment, step, nodes] for moment, module, step, nodes in lines if module == "layer2_upgrade"]

    def made(batches: list[list[str]], **variables) -> tuple[list[str], dict, Callable[[], list[list]]]:
        for name, result in RESULTS.items():
            given = {**result, **({"survey": {**SURVEY, "batches": batches}} if "survey" in result else {})}
            (copy / "plugins" / "modules" / f"{name}.py").write_text(RECORDER % (name, json.dumps(given)))
        words = json.dumps({**settings, **variables})
        command = [program, "playbooks/upgrade_layer2.yml", "-i", str(tmp_path / "hosts.yml"), "-e", words]
        return command, environment, steps

    return made


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, command: list[str], environment: dict) -> None:
        self.output = ""
        self._process, self._terminal = pty.fork()
        if not self._process:
            os.chdir(ROOT)
            os.execve(command[0], command, environment)

    def wait_for(self, text: str) -> None:
        """Read until a text appears; what came before it is forgotten."""
        while text not in self.output:
            assert self._read(), f"ended before {text!r}: {self.output}"
        self.output = self.output.partition(text)[2]

    def answer(self, text: str) -> None:
        """Answer a question; again until the run goes on, since Ansible discards what comes before it listens."""
        deadline = time.monotonic() + DEADLINE
        while "TASK [" not in self.output:
            assert time.monotonic() < deadline, self.output
            os.write(self._terminal, text.encode())
            while select.select([self._terminal], [], [], 1)[0] and self._read():
                if "TASK [" in self.output:
                    return

    def end(self) -> int:
        """Read to the end; return the exit status."""
        while self._read():
            pass
        return self._wait()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_exception) -> None:
        """End the command when it still runs."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            self._wait()

    def _wait(self) -> int:
        status = os.waitpid(self._process, 0)[1]
        os.close(self._terminal)
        self._process = 0
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        assert select.select([self._terminal], [], [], DEADLINE)[0], self.output
        try:
            found = os.read(self._terminal, 65536)
        except OSError:
            # Linux reports the end of a terminal as EIO.
            return False
        self.output += found.decode(errors="replace")
        return bool(found)


def names(steps: list[list]) -> list[tuple[str, list]]:
    return [(step, nodes) for _moment, step, nodes in steps]


NODE1 = [("drain", ["node1"]), ("change", ["node1"])]
NODE2 = [("drain", ["node2"]), ("change", ["node2"])]
CLEAN_UP = [("clean_up", None)]


def run(command: list[str], environment: dict) -> subprocess.CompletedProcess:
    """Run a command without a terminal."""
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def test_steps_wait_for_a_yes_and_another_answer_stops(upgrade):
    command, environment, steps = upgrade([["node1"]], heddle_upgrade_confirm=True)
    with Terminal(command, environment) as terminal:
        terminal.wait_for(ASK_DRAIN)
        assert names(steps()) == []
        terminal.answer("yes\r")
        terminal.wait_for(ASK_CLEAN_UP)
        assert names(steps()) == NODE1
        terminal.answer("\r")
        assert terminal.end() != 0
        assert "not confirmed" in terminal.output
    assert names(steps()) == NODE1


def test_confirmation_without_a_terminal_stops_before_anything_changes(upgrade):
    command, environment, steps = upgrade([["node1"]], heddle_upgrade_confirm=True)
    done = run(command, environment)
    assert done.returncode != 0
    assert "run it without heddle_upgrade_confirm" in " ".join(done.stdout.split())
    assert steps() == []


def test_pause_between_batches(upgrade):
    command, environment, steps = upgrade([["node1"], ["node2"]], heddle_upgrade_pause=2)
    done = run(command, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert names(steps()) == NODE1 + NODE2 + CLEAN_UP
    times = {(step, *(nodes or [])): moment for moment, step, nodes in steps()}
    assert times["drain", "node2"] - times["change", "node1"] >= 2
