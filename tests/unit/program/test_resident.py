# SPDX-License-Identifier: Apache-2.0
"""Calls that a service answers in copies of its process; whatever goes wrong there, the caller runs the call itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.program import service_client
from ansible_collections.heddle.ovn.plugins.module_utils.program.calls import answered
from tests.module_entry import ROOT
from tests.pipeline import layer2, namespace, plan_of

PLAN = plan_of(namespace("red") + layer2("red", "net", "10.1.0.0/24"))
VERSION = "v" * 32
_SERVICE = """
import select, sys
from ansible_collections.heddle.ovn.plugins.module_utils.program.resident import CallSocket
taken = CallSocket(sys.argv[1], sys.argv[2])
print("ready", flush=True)
while True:
    if select.select([taken], [], [], 0.1)[0]:
        taken.answer()
    taken.reap()
"""


def request(program: str = VERSION, node: str = "node1") -> bytes:
    params = {"node": node, "document": pack(PLAN), "plan": "/nonexistent"}
    return json.dumps(
        {"program": program, "module": "audit", "params": params, "check_mode": True, "diff": False}
    ).encode()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    path = str(tmp_path / "run" / "calls.sock")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "collections"), "HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVICE, VERSION, path], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield path, process
        process.kill()


def test_calls_are_answered_one_after_the_other_as_without_the_service(service):
    path, process = service
    assert os.stat(path).st_mode & 0o777 == 0o600
    for node in ("node1", "elsewhere", "node1"):
        assert service_client.asked(request(node=node), VERSION, path) == answered(VERSION, request(node=node))
    assert process.poll() is None
    # The copies have ended, and the service has collected them.
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while children.read_text():
        pass


def test_a_call_of_other_sources_runs_nothing(service):
    path, _process = service
    assert service_client.asked(request("another"), "another", path) is None
    assert json.loads(service_client.asked(request("another"), VERSION, path)) == {"program": VERSION}


def test_a_malformed_call_ends_its_copy_and_not_the_service(service):
    path, process = service
    assert service_client.asked(b"{", VERSION, path) is None
    assert service_client.asked(request(), VERSION, path) is not None
    assert process.poll() is None


def test_without_a_service_there_is_no_reply(tmp_path, service):
    path, process = service
    assert service_client.asked(request(), VERSION, str(tmp_path / "none.sock")) is None
    process.kill()
    process.wait()
    # Its socket is still there.
    assert os.path.exists(path)
    assert service_client.asked(request(), VERSION, path) is None


@pytest.mark.parametrize("sent", [b"", f"{VERSION}\n".encode(), f'{VERSION}\n{{"program": '.encode()])
def test_a_service_that_ends_during_the_call_has_not_answered_it(tmp_path, sent):
    path = str(tmp_path / "calls.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def end() -> None:
            with listening.accept()[0] as connection:
                connection.sendall(sent)

        ending = threading.Thread(target=end)
        ending.start()
        assert service_client.asked(request(), VERSION, path) is None
        ending.join()


def test_a_service_that_is_busy_does_not_get_the_call(tmp_path, monkeypatch):
    monkeypatch.setattr(service_client, "PATIENCE", 0.01)
    path = str(tmp_path / "calls.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        assert service_client.asked(request(), VERSION, path) is None
        with listening.accept()[0] as connection:
            assert connection.recv(1) == b""
