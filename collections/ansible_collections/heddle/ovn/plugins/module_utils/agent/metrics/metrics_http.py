# SPDX-License-Identifier: Apache-2.0
"""Answers one HTTP request for metrics (RFC 9112) on a socket of systemd (systemd.socket(5), Accept=yes)."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

PATH = "/metrics"
# Prometheus sends some hundred bytes.
_LONGEST = 16384
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def answer(request: BinaryIO, response: BinaryIO, metrics: Callable[[], str]) -> None:
    """Read a request up to its empty line, and write the answer to it; the connection ends with it."""
    line = request.readline(_LONGEST)
    read = len(line)
    while read < _LONGEST and (header := request.readline(_LONGEST - read)).strip():
        read += len(header)
    method, _space, rest = line.decode("latin-1").strip().partition(" ")
    target = rest.partition(" ")[0].partition("?")[0]
    if read >= _LONGEST or not target:
        status, text = "400 Bad Request", ""
    elif method not in ("GET", "HEAD"):
        status, text = "405 Method Not Allowed", ""
    elif target != PATH:
        status, text = "404 Not Found", f"metrics are at {PATH}\n"
    else:
        status, text = "200 OK", metrics()
    body = text.encode()
    allow = "Allow: GET, HEAD\r\n" if status.startswith("405") else ""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {_TYPE}\r\nContent-Length: {len(body)}\r\n{allow}"
    response.write(f"{head}Connection: close\r\n\r\n".encode() + (b"" if method == "HEAD" else body))
    response.flush()
