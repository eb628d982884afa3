# SPDX-License-Identifier: Apache-2.0
"""Modules run by Ansible itself, as playbooks run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.api import packed, read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from tests.pipeline import THREE_NODES

ROOT = Path(__file__).resolve().parents[3]


def run(module, *, check=False, **arguments):
    """Run a module through Ansible and return its result."""
    command = [
        str(Path(sys.executable).parent / "ansible"), "localhost", "-i", "localhost,", "-c", "local", "-o",
        "-m", module, "-a", json.dumps(arguments), "-e", f"ansible_python_interpreter={sys.executable}",
    ]  # fmt: skip
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    command += ["-C"] * check
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    line = next((line for line in done.stdout.splitlines() if " => " in line), None)
    assert line, done.stdout + done.stderr
    return json.loads(line.partition(" => ")[2])


def manifests(text):
    """Return the options of `resource` for a text of manifests."""
    resources, problems = read_manifests([("t.yml", text)])
    assert not problems
    return {"resources": pack([packed(resource) for resource in resources]), "nodes": THREE_NODES}


def intent(text, database, **changes):
    return {**manifests(text), "socket": database.remote, **changes}
