# SPDX-License-Identifier: Apache-2.0
"""Runs a module by its own entry, as Ansible does on a host, or by Ansible itself where an action plugin runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# `patch_module_args` hands arguments over in the way that the installed ansible-core expects them.
_PROGRAM = """
import importlib, json, sys
from ansible.module_utils.testing import patch_module_args
name, arguments = sys.argv[1], json.loads(sys.argv[2])
with patch_module_args(arguments):
    importlib.import_module("ansible_collections.heddle.ovn.plugins.modules." + name).main()
"""


def run_module(module: str, home: Path, /, *, check: bool = True, **arguments: object) -> dict:
    """Return the result of a module; `failed` and `msg` when it refuses. `home` takes what it keeps of byte code."""
    given = json.dumps({**arguments, "_ansible_check_mode": check, "_ansible_remote_tmp": str(home)})
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT / "collections")}
    command = [sys.executable, "-c", _PROGRAM, module, given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env=environment)
    assert done.stdout.strip().startswith("{"), done.stdout + done.stderr
    return json.loads(done.stdout)


def run_by_ansible(module: str, *, check: bool = True, **arguments: object) -> dict:
    """Return the result of a module or action plugin of this machine that Ansible runs."""
    command = [
        *(str(Path(sys.executable).parent / "ansible"), "localhost", "-i", "localhost,", "-c", "local", "-o"),
        *("-m", f"heddle.ovn.{module}", "-a", json.dumps(arguments), *["--check"] * check),
        *("-e", f"ansible_python_interpreter={sys.executable}"),
    ]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env=environment)
    head, arrow, result = done.stdout.partition(" => ")
    assert arrow, done.stdout + done.stderr
    # Ansible leaves the word out of what it prints of a failed task.
    return {**({"failed": True} if head.endswith("FAILED!") else {}), **json.loads(result)}
