# SPDX-License-Identifier: Apache-2.0
"""The nodes that have a workload's ports: one, or two during a migration."""

from __future__ import annotations


def hosting_nodes(workload: dict) -> list[str]:
    """Return the nodes that have the workload's ports: its node, and the target of a migration."""
    return [node for node in (workload["node"], workload.get("moving_to")) if node]
