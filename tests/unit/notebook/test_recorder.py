# SPDX-License-Identifier: Apache-2.0
"""Echoes that a recorder sends: the program on the host, and what is made of its record."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT / "notebooks") not in sys.path:
    sys.path.insert(0, str(ROOT / "notebooks"))

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel  # noqa: E402
from heddle_notebook import Fleet, Recorder, recorder  # noqa: E402
from tests.fleet import write_report  # noqa: E402

PATIENCE = 600
NAME = f"echoes{os.getpid()}"


@pytest.fixture
def workload() -> Iterator[None]:
    """A network namespace with an address of its own."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    kernel.create_namespace(NAME, "")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            kernel.remove_namespace(NAME)


def until(condition) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def following(log: Path, longest: float) -> subprocess.Popen:
    """Start the program, with something that is easier to follow in place of ping."""
    ping = ["sh", "-c", "echo begun $$; exec sleep 3600"]
    command = [sys.executable, "-c", recorder._FOLLOW, str(log), str(longest), NAME, *ping]
    return subprocess.Popen(command, stdout=log.open("w"), stderr=subprocess.STDOUT)


def test_echoes_of_a_workload_that_went_away_end(tmp_path: Path, workload: None) -> None:
    log = tmp_path / "log"
    with following(log, PATIENCE) as process:
        try:
            until(lambda: log.read_text().count("begun") == 1)
            # A process in it keeps the namespace alive, as ping itself would.
            sender = Path("/proc") / log.read_text().split()[-1]
            kernel.remove_namespace(NAME)
            until(lambda: not sender.exists())
            # It comes back, as one does that moved away and returned.
            kernel.create_namespace(NAME, "")
            until(lambda: log.read_text().count("begun") == 2)
        finally:
            process.terminate()
            process.wait()
            (sender,) = log.read_text().split()[-1:]
            os.kill(int(sender), signal.SIGKILL)


def test_echoes_that_are_never_stopped_end(tmp_path: Path, workload: None) -> None:
    with following(tmp_path / "log", 0.5) as process:
        assert process.wait(PATIENCE) == 0
    assert not (tmp_path / "log").exists()


def fleet(directory: Path) -> Fleet:
    (directory / "hosts.yml").write_text("{}")
    return Fleet(directory / "hosts.yml", write_report(directory / "report"))


def test_a_host_that_is_down_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = base64.b64encode(zlib.compress(b"PING 10.0.0.4\n[1.0] 64 bytes: icmp_seq=1 ttl=64 time=1.5 ms\n")).decode()
    monkeypatch.setattr(Fleet, "commands", lambda *_: {})
    monkeypatch.setattr(Fleet, "answers", lambda *_: {"node1": {"stdout": said}, "node3": {"stdout": said}})
    with Recorder(fleet(tmp_path), "red/w1", "red/w2") as record:
        pass
    assert record.down == ["node2"]
    assert len(record.echoes) == 2
    assert "without those of node2, down at the end" in record.picture().svg


def test_the_record_of_a_host_that_was_started_again(tmp_path: Path) -> None:
    stop = [sys.executable, "-c", recorder._STOP, f"{NAME}.service", str(tmp_path / "log")]
    said = subprocess.run(stop, capture_output=True, text=True, check=True).stdout
    assert recorder.unpacked(said) == b""
    (tmp_path / "log").write_text("text")
    said = subprocess.run(stop, capture_output=True, text=True, check=True).stdout
    assert recorder.unpacked(said) == b"text"
    assert not (tmp_path / "log").exists()
