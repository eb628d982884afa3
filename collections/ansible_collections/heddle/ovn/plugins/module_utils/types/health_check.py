# SPDX-License-Identifier: Apache-2.0
"""What a node answers at a Service's health check port."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HealthCheck:
    """A Service, and how many of its ready endpoints are on the node."""

    namespace: str
    name: str
    local_endpoints: int
