# SPDX-License-Identifier: Apache-2.0
"""Readiness probes in network namespaces of their own, as the host's daemon runs them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.probe_daemon.attempt import attempt
from ansible_collections.heddle.ovn.plugins.module_utils.types.readiness_probe import Probe, Request

ADDRESS, ADDRESS6 = "10.0.0.3", "fd00:1::3"
SERVER = """
import http.server, socket, sys
class Server(http.server.HTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = Server((sys.argv[1], 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def workload() -> Iterator[str]:
    name = f"p{os.getpid()}_web"
    kernel.create_namespace(name, "")
    try:
        ip = ["ip", "-n", name]
        subprocess.run([*ip, "link", "add", "eth0", "type", "veth", "peer", "name", "far"], check=True)
        for address, more in ((f"{ADDRESS}/24", []), (f"{ADDRESS6}/64", ["nodad"])):
            subprocess.run([*ip, "address", "add", address, "dev", "eth0", *more], check=True)
        for link in ("lo", "eth0", "far"):
            subprocess.run([*ip, "link", "set", link, "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def run(probe: Probe) -> str:
    return asyncio.run(attempt(probe))


@pytest.mark.parametrize("address", [ADDRESS, ADDRESS6])
def test_a_server_in_the_workload_is_seen_and_the_same_address_elsewhere_is_not(workload: str, address: str) -> None:
    command = ["ip", "netns", "exec", workload, sys.executable, "-c", SERVER, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            port = int(server.stdout.readline())
            tcp = Probe("tcpSocket", workload, address, port, None, (), 0, 10, 30, 1, 3)
            assert run(tcp) == ""
            http = replace(tcp, kind="httpGet", request=Request("HTTP", "/", ()))
            assert run(http) == ""
            assert run(replace(http, request=Request("HTTP", "/nothing-here", ()))).endswith(": status 404")
            refused = run(replace(tcp, port=port - 1 if port > 1 else 2))
            assert refused.endswith("Connection refused")
            # The test's own namespace has no such address.
            assert not _reached(address, port)
        finally:
            server.kill()


def _reached(address: str, port: int) -> bool:
    script = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"
    return subprocess.run(
        [sys.executable, "-c", script, address, str(port)], capture_output=True, check=False
    ).returncode == 0  # fmt: skip


def test_a_command_has_the_workloads_network_and_no_privileges(workload: str) -> None:
    probe = Probe("exec", workload, "", 0, None, (), 0, 10, 30, 1, 3)
    python = "/usr/bin/python3"

    def check(script: str) -> str:
        return run(replace(probe, command=(python, "-c", script)))

    assert check("import socket; socket.socket().bind(('10.0.0.3', 0))") == ""
    assert check("import os; assert os.getuid() == os.getgid() == 65534 and not os.getgroups()") == ""
    assert check("lines = dict(l.split(':', 1) for l in open('/proc/self/status')); "
                 "assert int(lines['CapEff'], 16) == 0 and lines['NoNewPrivs'].strip() == '1'") == ""  # fmt: skip
    assert check("raise SystemExit(3)") == f"{python}: ended with status 3"
    assert run(replace(probe, command=("/nonexistent",))).startswith("/nonexistent: ended with status ")


@pytest.mark.parametrize(
    ("script", "timeout", "found"),
    [
        ("sleep 3600 & exit 0", 60, ""),
        ("setsid sleep 3600 & setsid sleep 3600 & exit 3", 60, "sh: ended with status 3"),
        ("setsid sleep 3600 & exec setsid sleep 3600", 1, "sh: no answer within 1 s"),
    ],
)
def test_a_command_leaves_no_process_behind(workload: str, script: str, timeout: int, found: str) -> None:
    mark = f"heddle-probe-left-{os.getpid()}"
    command = ("sh", "-c", f"export MARK={mark}; {script}")
    assert run(Probe("exec", workload, "", 0, None, command, 0, 10, timeout, 1, 3)) == found
    assert any(not _processes_with(f"MARK={mark}") for _attempt in attempts(60))


def test_a_command_that_hangs_is_ended_with_all_that_it_started(workload: str) -> None:
    mark = f"heddle-probe-test-{os.getpid()}"
    script = f"import subprocess, time; subprocess.Popen(['sleep', '3600'], env={{'MARK': '{mark}'}}); time.sleep(3600)"
    probe = Probe("exec", workload, "", 0, None, ("/usr/bin/python3", "-c", script), 0, 10, 2, 1, 3)
    assert run(probe) == "/usr/bin/python3: no answer within 2 s"
    # All are killed then, but those that the command started have not necessarily ended.
    assert any(not _processes_with(f"MARK={mark}") for _attempt in attempts(60))


def _processes_with(variable: str) -> list[str]:
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/environ", encoding="utf-8", errors="replace") as file:
                if variable in file.read():
                    found.append(process)
        except OSError:
            continue
    return found
