# SPDX-License-Identifier: Apache-2.0
"""A workload's readiness probe, as the daemon of its host runs it."""

from __future__ import annotations

from dataclasses import dataclass

EXEC, HTTP, TCP = "exec", "httpGet", "tcpSocket"


@dataclass(frozen=True)
class Request:
    """What an HTTP probe asks for: scheme HTTP or HTTPS, path, and headers by name in their order."""

    scheme: str
    path: str
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Probe:
    """What is tried in a network namespace, and how often; times are in seconds.

    `address` and `port` are of the workload's primary interface, for EXEC they are unused.
    """

    kind: str
    namespace: str
    address: str
    port: int
    request: Request | None
    command: tuple[str, ...]
    delay: int
    period: int
    timeout: int
    successes: int
    failures: int
