# SPDX-License-Identifier: Apache-2.0
"""Which hosts migrate_workload.yml reports as left out by its limit: the real playbook and role, without a state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.suite import mitogen

from .conftest import ROOT, link_collection

# Stands for heddle.ovn.migration.
RECORDER = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule, _load_params
given = {name: value for name, value in _load_params().items() if not name.startswith("_ansible")}
module = AnsibleModule({name: {"type": "raw"} for name in given})
module.fail_json(msg="left out: " + ",".join(sorted(given["left_out"])) + ".")
"""


@pytest.mark.parametrize(
    ("limit", "left_out"),
    [
        ("node1,node2", "left out: node3."),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (("", "left out: ."), ("node2", "left out: node1,node3."))
        ),
    ],
)
def test_hosts_beyond_the_limit_are_given_to_the_first_step(tmp_path: Path, limit: str, left_out: str) -> None:
    module = link_collection(tmp_path / "collections") / "plugins" / "modules" / "migration.py"
    module.unlink(missing_ok=True)
    module.write_text(RECORDER)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {
        f"node{number}": {**local, "heddle_encap_ips": [f"198.18.1.1{number}"], "heddle_underlay_interface": "eth1"}
        for number in (1, 2, 3)
    }
    inventory = {
        "heddle_nodes": {"hosts": hosts},
        "heddle_state": {"hosts": {"node1": None}},
        "ungrouped": {"hosts": {"localhost": local}},
    }
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory))
    environment = {
        **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"), "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_STDOUT_CALLBACK": "default", "COLUMNS": "200", **mitogen(),
    }  # fmt: skip
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"), "playbooks/migrate_workload.yml", "-i",
        str(tmp_path / "hosts.yml"), "-e", "workload=red/vm", "-e", "to=node2", "-e", f"heddle_manifests={tmp_path}",
    ]  # fmt: skip
    command += ["--limit", limit] if limit else []
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert left_out in done.stdout
