# SPDX-License-Identifier: Apache-2.0
"""Runs of real playbooks and roles on three hosts, with modules that record their options instead of what they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from scripts.suite import mitogen

from .conftest import ROOT, link_collection

NODES = ("node1", "node2", "node3")
# Its results are those of a module, or of a module with its step and node, and with its document.
RECORDER = """#!/usr/bin/python
import json, os
from ansible.module_utils.basic import AnsibleModule, _load_params
given = {name: value for name, value in _load_params().items() if not name.startswith("_ansible")}
module = AnsibleModule({name: {"type": "raw"} for name in given})
with open(os.environ["RECORD"], "a") as record:
    record.write(json.dumps([%r, given]) + "\\n")
results = json.loads(os.environ["RESULTS"])
step = given.get("handover") or given.get("state")
names = [%r, step, given.get("node") or given.get("name")]
full = " ".join(filter(None, names))
keys = (f"{full} {given.get('document')}", full, f"{names[0]} {step}", names[0])
found = next((results[key] for key in keys if key in results), {})
(module.fail_json if found.get("failed") else module.exit_json)(**{"changed": False, **found})
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
    modules = link_collection(directory / "collections") / "plugins" / "modules"
    for name in {key.partition(" ")[0] for key in results}:
        (modules / f"{name}.py").unlink()
        (modules / f"{name}.py").write_text(RECORDER % (name, name))
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
        **mitogen(),
    }  # fmt: skip
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"), f"playbooks/{playbook}", "-i",
        str(directory / "hosts.yml"), "-e", f"heddle_manifests={directory / 'manifests'}", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return Calls(done, record)
