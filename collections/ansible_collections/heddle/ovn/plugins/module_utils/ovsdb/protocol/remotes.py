# SPDX-License-Identifier: Apache-2.0
"""Where OVSDB servers listen: `unix:PATH`, `tcp:HOST:PORT`, `ssl:HOST:PORT`, several separated by commas.

As in ovsdb(7), "Active Database Connections"; an IPv6 address stands in brackets, `tcp:[2001:db8::1]:6641`. The
defaults of a host are in `common/databases.py`.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from .errors import Unreachable
from .stream import Stream

_NETWORK = re.compile(r"(?P<scheme>tcp|ssl):(?:\[(?P<address>[^\]]+)\]|(?P<host>[^\[\]:,]+)):(?P<port>\d{1,5})")


@dataclass(frozen=True)
class Tls:
    """Files in PEM format: this client's private key and certificate, and the authority that signed the server's."""

    private_key: str
    certificate: str
    ca_certificate: str


@dataclass(frozen=True)
class Remote:
    """One server. `scheme` is `unix`, `tcp` or `ssl`; `host` is a path for `unix`, whose `port` is 0."""

    scheme: str
    host: str
    port: int = 0

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix:{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}:{host}:{self.port}"


def parse_remotes(text: str) -> tuple[Remote, ...]:
    """Return the servers that a remote names, in its order (ovsdb(7), "Active Database Connections").

    ValueError names one that is written in another form, and the forms.
    """
    return tuple(_parse(part.strip()) for part in text.split(","))


def _parse(text: str) -> Remote:
    if text.startswith("unix:") and text != "unix:":
        return Remote("unix", text.removeprefix("unix:"))
    found = _NETWORK.fullmatch(text)
    if found and 0 < int(found["port"]) < 1 << 16:
        return Remote(found["scheme"], found["address"] or found["host"], int(found["port"]))
    raise ValueError(
        f"remote {text!r} is not supported; use unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, several separated by commas"
    )


def open_stream(remote: Remote, timeout: float, tls: Tls | None) -> Stream:
    """Connect to a server, within `timeout` seconds; Unreachable with the reason when that fails.

    ValueError for `ssl:` without `tls`: nothing is sent to a server that cannot be verified.
    """
    if remote.scheme == "ssl" and tls is None:
        raise ValueError(f"remote {remote} needs a private key, a certificate and a CA certificate")
    try:
        connection = _connect(remote, timeout)
        if remote.scheme != "ssl":
            return Stream(connection)
        # Only here, because loading OpenSSL takes longer than most connections live.
        from .tls import secured

        return secured(connection, tls)
    except OSError as error:
        raise Unreachable(str(remote), f"cannot connect: {_reason(error)}") from error


def _connect(remote: Remote, timeout: float) -> socket.socket:
    if remote.scheme != "unix":
        return socket.create_connection((remote.host, remote.port), timeout)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(remote.host)
    except OSError:
        connection.close()
        raise
    return connection


def _reason(error: OSError) -> str:
    # OpenSSL's own word for a certificate that does not verify (`ssl.SSLCertVerificationError`).
    return getattr(error, "verify_message", "") or error.strerror or str(error)
