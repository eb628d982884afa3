# SPDX-License-Identifier: Apache-2.0
"""Renders the plan for one host into desired rows, flows and links. Pure functions; no I/O."""

from __future__ import annotations

from .host.netns import render_endpoints
from .host.qemu import render_additional_chassis, render_virtual_machines
from .host.vswitch import render_integration_bridge, render_workload_ports
from .northbound import render_northbound
from .southbound import render_southbound

__all__ = [
    "render_additional_chassis",
    "render_endpoints",
    "render_integration_bridge",
    "render_northbound",
    "render_southbound",
    "render_virtual_machines",
    "render_workload_ports",
]
