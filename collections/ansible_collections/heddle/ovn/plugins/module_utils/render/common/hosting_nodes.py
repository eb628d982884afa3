# SPDX-License-Identifier: Apache-2.0
"""Which nodes a workload is on: one, or two while it moves."""

from __future__ import annotations


def hosts(workload: dict) -> list[str]:
    """Return the nodes that have the workload's ports: where it runs, and where it is on its way to."""
    return [node for node in (workload["node"], workload.get("moving_to")) if node]
