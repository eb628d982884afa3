# SPDX-License-Identifier: Apache-2.0
"""The daemon with real connections and commands, in the network namespace of the test instead of a workload's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.files.daemon_report import is_running, only_daemon
from ansible_collections.heddle.ovn.plugins.module_utils.probe_daemon import attempt, daemon
from ansible_collections.heddle.ovn.plugins.module_utils.probe_daemon.daemon import Daemon
from ansible_collections.heddle.ovn.plugins.module_utils.probe_daemon.report import (
    current_report,
    wait_for_report,
)
from ansible_collections.heddle.ovn.plugins.module_utils.types.readiness_probe import Probe, Request
from lab.ports import free

# A busy machine may take some seconds to answer.
TCP = Probe("tcpSocket", "red_web", "127.0.0.1", 0, None, (), delay=0, period=1, timeout=60, successes=1, failures=1)
HTTP = replace(TCP, kind="httpGet", request=Request("HTTP", "/live?a=b", (("X-Test", "one"),)))


@pytest.fixture(autouse=True)
def namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the namespace of the workload be this process's own."""
    folder = tmp_path / "netns"
    folder.mkdir()
    (folder / "red_web").touch()
    monkeypatch.setattr(attempt, "_NAMESPACES", str(folder))
    monkeypatch.setattr(attempt, "in_netns", lambda _name: contextlib.nullcontext())
    return folder


def probed(probe: Probe, answer: bytes | None = None, secure: ssl.SSLContext | None = None) -> tuple[str, bytes]:
    """Run a probe against a server that sends this, and nothing for ever with None; return both sides' findings."""
    received = b""

    async def serve(reader, writer) -> None:
        nonlocal received
        if answer is not None:
            received = await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()

    async def run() -> str:
        server = await asyncio.start_server(serve, probe.address, 0, ssl=secure)
        port = server.sockets[0].getsockname()[1]
        try:
            return (await attempt.attempt(replace(probe, port=port))).replace(str(port), "PORT")
        finally:
            server.close()

    return asyncio.run(run()), received


def test_tcp() -> None:
    assert probed(TCP) == ("", b"")
    assert probed(replace(TCP, address="::1")) == ("", b"")
    port = free()
    assert asyncio.run(attempt.attempt(replace(TCP, port=port))) == f"TCP 127.0.0.1:{port}: Connection refused"


def test_http_statuses() -> None:
    found, request = probed(HTTP, b"HTTP/1.1 204 No Content\r\n\r\n")
    assert found == ""
    lines = request.decode().split("\r\n")
    assert lines[0] == "GET /live?a=b HTTP/1.1"
    assert {"X-Test: one", "User-Agent: heddle-probe", "Connection: close"} <= {*lines}
    for status, failure in ((200, ""), (302, ""), (404, "status 404"), (503, "status 503"), (199, "status 199")):
        found = probed(HTTP, f"HTTP/1.0 {status}\r\n\r\n".encode())[0]
        assert found == (f"HTTP 127.0.0.1:PORT: {failure}" if failure else "")


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 20\r\n", b"HTTP/1.1 2000\r\n", b"x" * 200_000, b"HTTP/1.1 \xff\xff\xff\r\n"],
)
def test_what_is_not_http(answer: bytes) -> None:
    assert probed(HTTP, answer)[0] == "HTTP 127.0.0.1:PORT: the answer is not HTTP"


def test_no_answer_in_time() -> None:
    assert probed(replace(HTTP, timeout=1))[0] == "HTTP 127.0.0.1:PORT: no answer within 1 s"


def test_a_header_replaces_the_own_one() -> None:
    probe = replace(HTTP, request=Request("HTTP", "/", (("host", "web.example"),)))
    request = probed(probe, b"HTTP/1.1 200 OK\r\n\r\n")[1].decode().lower()
    assert request.count("host:") == 1
    assert "host: web.example" in request


def test_https_with_any_certificate(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
         "-subj", "/CN=other", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificate, key)
    probe = replace(HTTP, request=Request("HTTPS", "/", ()))
    assert probed(probe, b"HTTP/1.1 200 OK\r\n\r\n", secure)[0] == ""
    assert probed(replace(probe, timeout=1), b"HTTP/1.1 200 OK\r\n\r\n")[0].startswith("HTTPS 127.0.0.1:PORT: ")


def test_https_to_a_server_without_tls_has_the_reason_of_tls() -> None:
    async def run() -> str:
        server = await asyncio.start_server(
            lambda _reader, writer: writer.write(b"HTTP/1.1 400 x\r\n\r\n"), "127.0.0.1", 0
        )
        async with server:
            port = server.sockets[0].getsockname()[1]
            probe = replace(HTTP, port=port, request=Request("HTTPS", "/", ()))
            return (await attempt.attempt(probe)).replace(str(port), "PORT")

    # Releases of OpenSSL differ in the rest.
    assert asyncio.run(run()).startswith("HTTPS 127.0.0.1:PORT: TLS: ")


def test_a_workload_that_is_not_there(namespaces: Path) -> None:
    (namespaces / "red_web").unlink()
    assert asyncio.run(attempt.attempt(TCP)) == "the workload is not there yet"


class Run:
    """A daemon, until `stop`."""

    def __init__(self, folder: Path, wanted: dict[str, Probe] | None) -> None:
        self.path, self.wanted, self.said = str(folder / "readiness.json"), wanted, []
        self.daemon = Daemon(lambda: self.wanted, self.path, self.said.append)

    def report(self) -> dict[str, tuple[bool, str]]:
        entries = json.loads(Path(self.path).read_text()) if os.path.exists(self.path) else {}
        return {name: (one["ready"], one["message"]) for name, one in entries.items()}

    async def until(self, expected: dict[str, tuple[bool, str]]) -> None:
        while self.report() != expected:
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_LOOK_SECONDS", 0.01)


def test_a_server_that_comes_and_goes_and_a_plan_without_probes(tmp_path: Path) -> None:
    port = free()
    refused = (False, f"TCP 127.0.0.1:{port}: Connection refused")
    run = Run(tmp_path, {"red/web": replace(TCP, port=port)})

    async def scenario() -> None:
        running = asyncio.ensure_future(run.daemon.run())
        await run.until({"red/web": refused})
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port)
        await run.until({"red/web": (True, "")})
        server.close()
        await run.until({"red/web": refused})
        run.wanted = {}
        await run.until({})
        assert os.path.exists(run.path)
        run.wanted = None
        await running

    asyncio.run(scenario())
    assert not os.path.exists(run.path)
    assert run.said == ["red/web: ready", f"red/web: not ready: {refused[1]}"]


def test_a_report_that_was_deleted_is_written_again_and_a_restart_keeps_it(tmp_path: Path) -> None:
    port = free()
    probe = replace(TCP, port=port, period=3600)
    expected = {"red/web": (False, f"TCP 127.0.0.1:{port}: Connection refused")}

    async def begin(check) -> None:
        run = Run(tmp_path, {"red/web": probe})
        running = asyncio.ensure_future(run.daemon.run())
        await check(run)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def first(run: Run) -> None:
        await run.until(expected)
        os.unlink(run.path)
        await run.until(expected)

    async def second(run: Run) -> None:
        # The next probe of it is within an hour.
        await asyncio.sleep(0.1)
        assert run.report() == expected

    asyncio.run(begin(first))
    asyncio.run(begin(second))
    assert current_report({"red/web": replace(probe, port=1)}, str(tmp_path / "readiness.json")) == {}


def test_probes_go_on_without_a_report(tmp_path: Path) -> None:
    """As where /run is full."""
    port = free()
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run", {"red/web": replace(TCP, port=port)})
    (tmp_path / "run").rmdir()

    async def scenario() -> None:
        running = asyncio.ensure_future(run.daemon.run())
        while not run.said:
            assert not running.done()
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        assert not running.done()
        (tmp_path / "run").mkdir()
        await run.until({"red/web": (False, f"TCP 127.0.0.1:{port}: Connection refused")})
        run.wanted = None
        await running

    asyncio.run(scenario())
    assert len(run.said) == 1
    assert "No such file or directory" in run.said[0]


def test_waiting_ends_with_a_report_or_when_it_is_overdue(tmp_path: Path) -> None:
    path = str(tmp_path / "readiness.json")
    assert wait_for_report({"red/web": replace(TCP, timeout=0)}, 0.0, path) == {}
    assert wait_for_report({}, 3600.0, path) == {}
    run = Run(tmp_path, {"red/web": replace(TCP, port=free())})

    async def scenario() -> dict:
        running = asyncio.ensure_future(run.daemon.run())
        found = await asyncio.to_thread(wait_for_report, run.wanted, 3600.0, path)
        run.wanted = None
        await running
        return found

    found = asyncio.run(scenario())
    assert found["red/web"].keys() == {"ready", "message"}


def test_there_is_one_daemon(tmp_path: Path) -> None:
    path = str(tmp_path / "readiness.json")
    assert not is_running(path)
    with only_daemon(path):
        assert is_running(path)
        with pytest.raises(BlockingIOError), only_daemon(path):
            pass
    assert not is_running(path)


def test_a_lost_cancellation_of_a_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`asyncio.wait_for` loses it before Python 3.12 when the answer comes in the same moment."""
    probe = replace(TCP, port=1)
    run = Run(tmp_path, {"red/web": probe})
    asked: list[int] = []

    async def answers(asked_for: Probe) -> str:
        asked.append(asked_for.port)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return ""
        raise AssertionError

    monkeypatch.setattr(daemon, "attempt", answers)

    async def scenario() -> None:
        running = asyncio.ensure_future(run.daemon.run())
        for port in (2, 3):
            while len(asked) < port - 1:
                await asyncio.sleep(0.01)
            run.wanted = {"red/web": replace(probe, port=port)}
        while len(asked) < 3:
            await asyncio.sleep(0.01)
        # Neither of those that were replaced counts.
        assert run.said == []
        run.wanted = None
        await running

    asyncio.run(scenario())
    assert asked == [1, 2, 3]
