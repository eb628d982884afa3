# SPDX-License-Identifier: Apache-2.0
"""Runs of real playbooks and roles on three hosts, with modules that record their options instead of what they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from .conftest import ROOT, link_collection

NODES = ("node1", "node2", "node3")
# Its results are those of a module, or of a module with its step and node, and with its document.
# An action plugin, so that a task starts no process for its module; on a host that does not answer it fails as one.
RECORDER = """import json, os
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        if self._connection.transport != "local":
            self._low_level_execute_command("true")
        given = dict(self._task.args)
        with open(os.environ["RECORD"], "a") as record:
            record.write(json.dumps([%r, given]) + "\\n")
        results = json.loads(os.environ["RESULTS"])
        step = given.get("handover") or given.get("state")
        names = [%r, step, given.get("node") or given.get("name")]
        full = " ".join(filter(None, names))
        keys = (f"{full} {given.get('document')}", full, f"{names[0]} {step}", names[0])
        return {"changed": False, **next((results[key] for key in keys if key in results), {})}
"""


class Calls:
    """A run, and the options that modules were called with."""

    def __init__(self, done: subprocess.CompletedProcess, record: Path) -> None:
        self.code, self.output = done.returncode, done.stdout + done.stderr
        self._calls = [json.loads(line) for line in record.read_text().splitlines()]

    def of(self, module: str, step: str | None = None) -> list[dict]:
        """Return the options of all calls of a module, of one step of a move or of none."""
        return [options for name, options in self._calls if name == module and options.get("handover") == step]


def play(directory: Path, playbook: str, results: dict, *arguments: str, hosts: dict | None = None) -> Calls:
    """Run a playbook with these results of modules; `hosts` has further variables by node. The first has the state."""
    actions = link_collection(directory / "collections") / "plugins" / "action"
    for name in {key.partition(" ")[0] for key in results}:
        (actions / f"{name}.py").unlink(missing_ok=True)
        (actions / f"{name}.py").write_text(RECORDER % (name, name))
    (directory / "manifests").mkdir()
    (directory / "manifests" / "none.yml").touch()
    record = directory / "record"
    record.touch()
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {
        "heddle_nodes": {
            "hosts": {
                name: {
                    **local, "heddle_encap_ips": [f"198.18.1.{number}"], "heddle_underlay_interface": "eth1",
                    **(hosts or {}).get(name, {}),
                }
                for number, name in enumerate(NODES, start=1)
            }
        },
        "heddle_state": {"hosts": {NODES[0]: None}},
        "ungrouped": {"hosts": {"localhost": local}},
    }  # fmt: skip
    (directory / "hosts.yml").write_text(json.dumps(inventory))
    environment = {
        **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(directory / "collections"), "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_STDOUT_CALLBACK": "default", "COLUMNS": "200", "RECORD": str(record), "RESULTS": json.dumps(results),
    }  # fmt: skip
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"), f"playbooks/{playbook}", "-i",
        str(directory / "hosts.yml"), "-e", f"heddle_manifests={directory / 'manifests'}", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return Calls(done, record)
