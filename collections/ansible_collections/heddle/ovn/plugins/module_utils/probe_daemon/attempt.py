# SPDX-License-Identifier: Apache-2.0
"""One probe of a workload, from within its network namespace.

A connection is made from the workload itself to its own address: what listens on another one is not seen, and no policy
is in the way. A command runs without privileges, with the network of the workload and the files of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import ssl

from ..netlink.kernel import in_netns
from ..types.readiness_probe import EXEC, HTTP, TCP, Probe

_NAMESPACES = "/run/netns"
_UNPRIVILEGED = "65534"
# pid_namespaces(7): when the command ends, or unshare(1) is killed, the kernel ends all that the command started. Of a
# process group or a session, processes may leave.
_WITH_ALL_IT_STARTS = ["unshare", "--pid", "--fork", "--kill-child", "--"]
# setpriv(1): nothing of the daemon's privileges is left for the command. The other user would also lose the signal that
# `--kill-child` asked for.
_WITHOUT_PRIVILEGES = [
    "setpriv", f"--reuid={_UNPRIVILEGED}", f"--regid={_UNPRIVILEGED}", "--clear-groups", "--no-new-privs",
    "--pdeathsig=KILL", "--",
]  # fmt: skip
# RFC 9112, section 4: HTTP-version SP status-code SP reason-phrase.
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r\n]")
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


async def attempt(probe: Probe) -> str:
    """Run a probe once; return why it failed, "" when it succeeded."""
    if not os.path.exists(os.path.join(_NAMESPACES, probe.namespace)):
        return "the workload is not there yet"
    try:
        return await asyncio.wait_for(_KINDS[probe.kind](probe), probe.timeout)
    except TimeoutError:
        return f"{_target(probe)}: no answer within {probe.timeout} s"
    except ssl.SSLError as error:
        # Its number is OpenSSL's, and none of the system.
        return f"{_target(probe)}: TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    except OSError as error:
        # asyncio adds the address to some messages, and it is there already.
        reason = os.strerror(error.errno) if error.errno else str(error)
        return f"{_target(probe)}: {reason}"


def _target(probe: Probe) -> str:
    if probe.kind == EXEC:
        return probe.command[0]
    address = f"[{probe.address}]" if ":" in probe.address else probe.address
    return f"{'TCP' if probe.kind == TCP else probe.request.scheme} {address}:{probe.port}"


async def _connect(probe: Probe) -> socket.socket:
    kind = socket.AF_INET6 if ":" in probe.address else socket.AF_INET
    # A socket stays in the network namespace that it was made in (network_namespaces(7)).
    with in_netns(probe.namespace):
        connection = socket.socket(kind, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (probe.address, probe.port))
    except BaseException:
        connection.close()
        raise
    return connection


async def _tcp(probe: Probe) -> str:
    (await _connect(probe)).close()
    return ""


async def _http(probe: Probe) -> str:
    request = probe.request
    secure = {"ssl": _any_certificate(), "server_hostname": probe.address} if request.scheme == "HTTPS" else {}
    connection = await _connect(probe)
    try:
        reader, writer = await asyncio.open_connection(sock=connection, **secure)
    except BaseException:
        connection.close()
        raise
    try:
        writer.write(_request_text(probe))
        await writer.drain()
        line = await reader.readline()
    except ValueError:
        line = b""
    finally:
        # What is still to be sent or received is of no use.
        writer.transport.abort()
    found = _STATUS_LINE.match(line)
    if found is None:
        return f"{_target(probe)}: the answer is not HTTP"
    code = int(found[1])
    return "" if 200 <= code < 400 else f"{_target(probe)}: status {code}"


def _any_certificate() -> ssl.SSLContext:
    """Return a context that verifies nothing, as a probe in Kubernetes: it asks whether, not who."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _request_text(probe: Probe) -> bytes:
    address = f"[{probe.address}]" if ":" in probe.address else probe.address
    given = {name.lower() for name, _value in probe.request.headers}
    own = [("Host", f"{address}:{probe.port}"), ("User-Agent", "heddle-probe"), ("Accept", "*/*")]
    headers = [*probe.request.headers, *(one for one in own if one[0].lower() not in given), ("Connection", "close")]
    lines = [f"GET {probe.request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode()


async def _exec(probe: Probe) -> str:
    process = await asyncio.create_subprocess_exec(
        "ip", "netns", "exec", probe.namespace, *_WITH_ALL_IT_STARTS, *_WITHOUT_PRIVILEGES, *probe.command,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        cwd="/", env=_ENVIRONMENT, start_new_session=True,
    )  # fmt: skip
    try:
        status = await process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    return "" if status == 0 else f"{_target(probe)}: ended with status {status}"


_KINDS = {EXEC: _exec, HTTP: _http, TCP: _tcp}
