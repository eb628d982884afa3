# SPDX-License-Identifier: Apache-2.0
"""Plan and host name into desired rows and links. Pure functions; no I/O."""

from __future__ import annotations

from .endpoint import render_endpoints
from .northbound import render_northbound
from .southbound import render_southbound
from .virtual_machine import render_extra_chassis, render_virtual_machines
from .vswitch import render_integration_bridge, render_workload_ports

__all__ = [
    "render_endpoints",
    "render_extra_chassis",
    "render_integration_bridge",
    "render_northbound",
    "render_southbound",
    "render_virtual_machines",
    "render_workload_ports",
]
