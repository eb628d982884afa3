# SPDX-License-Identifier: Apache-2.0
"""The program `heddle-host`: one file that needs nothing but Python, and clear words when it lacks something."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.host_program import command, parts
from ansible_collections.heddle.ovn.plugins.module_utils.host_program.bundle import bundle
from ansible_collections.heddle.ovn.plugins.module_utils.host_program.events import Events


def test_equal_sources_give_an_equal_file_that_runs_alone(tmp_path: Path):
    program = tmp_path / "heddle-host"
    program.write_bytes(bundle())
    program.chmod(0o755)
    assert bundle() == program.read_bytes()
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program), "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "status" in done.stdout
    assert "watch" in done.stdout


def test_a_host_that_was_never_installed_is_told_so(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(parts.read_host, "__defaults__", (str(tmp_path / "none.json"),))
    assert command.main(["status"]) == command.EXIT_FAILED
    assert "Run playbooks/install.yml, which brings it." in capsys.readouterr().err


class Database:
    """One end of a socket where Open_vSwitch's database would be."""

    def __init__(self, path: Path) -> None:
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen(1)
        self.path = path

    def accept(self) -> socket.socket:
        connection, _address = self.server.accept()
        return connection


@pytest.fixture
def database(tmp_path: Path):
    opened = Database(tmp_path / "db.sock")
    yield opened
    opened.server.close()


def test_events_are_a_new_process_and_an_update_of_patch_ports(tmp_path: Path, database: Database):
    pid_file = tmp_path / "pid"
    pid_file.write_text("1")
    events = Events(str(pid_file), f"unix:{database.path}")
    assert events.wait() is None
    connection = database.accept()
    assert b'"monitor_cond"' in connection.recv(4096)
    connection.sendall(b'{"id":"echo","method":"echo","params":[]}')
    assert events.wait() is None
    assert b'"id": "echo"' in connection.recv(4096)
    connection.sendall(b'{"id":null,"method":"update2","params":["patch ports",{}]}')
    assert events.wait() == "ports changed"
    pid_file.write_text(str(os.getpid()))
    assert events.wait() == "switch restarted"
    pid_file.unlink()
    assert events.wait() is None
    connection.close()
    assert events.wait() is None
    assert events.wait() is None
    assert b'"monitor_cond"' in database.accept().recv(4096)
