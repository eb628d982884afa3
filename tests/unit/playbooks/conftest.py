# SPDX-License-Identifier: Apache-2.0
"""The real playbook and roles of the Layer2 upgrade on one host.

The modules that read and write hosts are replaced by ones that record that they ran, and return what they are given.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.suite import mitogen

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
    record.write(json.dumps([time.time(), %r, given.get("step") or given.get("state"), given.get("nodes")]) + "\\n")
results = json.loads(%r)
module.exit_json(**{"changed": False, **results.get(given.get("state"), results)})
"""


def link_collection(path: Path) -> Path:
    """Make the collection below a directory out of links, apart from the directories in which modules are replaced."""
    source = ROOT / "collections" / "ansible_collections" / "heddle" / "ovn"
    copy = path / "ansible_collections" / "heddle" / "ovn"
    for own in ("", "plugins", "plugins/action", "plugins/modules"):
        (copy / own).mkdir(parents=True)
        for entry in (source / own).iterdir():
            if entry.name not in ("plugins", "action", "modules", "tests", "__pycache__"):
                (copy / own / entry.name).symlink_to(entry)
    return copy


@pytest.fixture
def upgrade(tmp_path):
    """A function `(batches, results, **variables) -> (command, environment, steps)`.

    `results` are those of further modules, by name, or by name and the option `state`. `steps()` are those that were
    performed, `steps(module)` the states of another module.
    """
    modules = link_collection(tmp_path / "collections") / "plugins" / "modules"
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

    def steps(wanted: str = "layer2_upgrade") -> list[list]:
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        return [[moment, step, nodes] for moment, module, step, nodes in lines if module == wanted]

    def made(
        batches: list[list[str]], results: dict | None = None, **variables
    ) -> tuple[list[str], dict, Callable[..., list[list]]]:
        for name, result in {**RESULTS, **(results or {})}.items():
            given = {**result, **({"survey": {**SURVEY, "batches": batches}} if "survey" in result else {})}
            file = modules / f"{name}.py"
            file.unlink(missing_ok=True)
            file.write_text(RECORDER % (name, json.dumps(given)))
        words = json.dumps({**settings, **variables})
        command = [program, "playbooks/upgrade_layer2.yml", "-i", str(tmp_path / "hosts.yml"), "-e", words]
        return command, environment, steps

    return made
