# SPDX-License-Identifier: Apache-2.0
"""Runs a module by its own entry, as Ansible does on a host, or by Ansible itself where an action plugin runs."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Imports all modules, then runs each request (a line of JSON) in a copy of itself, like a process that Ansible starts
# but without the seconds of importing. The output of a module goes to a file that the request names.
# `patch_module_args` hands arguments over in the way that the installed ansible-core expects them.
_SERVER = """
import importlib, json, os, pkgutil, sys, traceback
import ansible.module_utils.basic
from ansible.module_utils.testing import patch_module_args
from ansible_collections.heddle.ovn.plugins import modules
for one in pkgutil.iter_modules(modules.__path__):
    importlib.import_module(modules.__name__ + "." + one.name)
for line in sys.stdin:
    request = json.loads(line)
    if not os.fork():
        output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ["HOME"] = request["home"]
        try:
            with patch_module_args(request["arguments"]):
                importlib.import_module(modules.__name__ + "." + request["module"]).main()
        except SystemExit:
            pass
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.wait()
    print("done", flush=True)
"""


@functools.cache
def _server(_process: int) -> subprocess.Popen:
    """Start the process that runs modules; it ends with its standard input, which this process holds."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
    return subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env=environment,
    )  # fmt: skip


def run_module(module: str, home: Path, /, *, check: bool = True, **arguments: object) -> dict:
    """Return the result of a module; `failed` and `msg` when it refuses. `home` takes what it keeps of byte code."""
    given = {**arguments, "_ansible_check_mode": check, "_ansible_remote_tmp": str(home)}
    server = _server(os.getpid())
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "output"
        request = {"module": module, "arguments": given, "home": str(home), "output": str(output)}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        assert server.stdout.readline() == "done\n", "the process that runs modules ended"
        text = output.read_text()
    assert text.strip().startswith("{"), text
    return json.loads(text)


def run_by_ansible(module: str, *, check: bool = True, **arguments: object) -> dict:
    """Return the result of a module or action plugin of this machine that Ansible runs."""
    return run_all_by_ansible([(module, arguments)], check=check)[0]


def run_all_by_ansible(calls: list[tuple[str, dict]], *, check: bool = True) -> list[dict]:
    """Return the results of modules or action plugins that one play runs, whatever fails."""
    tasks = [
        {f"heddle.ovn.{module}": arguments, "ignore_errors": True, "check_mode": check, "register": f"result_{number}"}
        for number, (module, arguments) in enumerate(calls)
    ]
    with tempfile.TemporaryDirectory() as directory:
        results, playbook = Path(directory) / "results", Path(directory) / "play.yml"
        words = ", ".join(f"result_{number}" for number in range(len(calls)))
        kept = {"ansible.builtin.copy": {"content": f"{{{{ [{words}] | to_json }}}}", "dest": str(results)}}
        playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [*tasks, kept]}]))
        command = [
            *(str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local"),
            *("-e", f"ansible_python_interpreter={sys.executable}", str(playbook)),
        ]
        environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
        assert results.exists(), done.stdout + done.stderr
        return json.loads(results.read_text())
