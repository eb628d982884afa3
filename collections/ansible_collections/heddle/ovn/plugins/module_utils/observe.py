# SPDX-License-Identifier: Apache-2.0
"""Waiting until what was written is there: ports bound and up."""

from __future__ import annotations

import time

NORTHBOUND_DATABASE = "OVN_Northbound"


def ports_not_up(client, ports: list[str]) -> list[str]:
    """Return those logical switch ports that are not up, or not there."""
    selects = [
        {"op": "select", "table": "Logical_Switch_Port", "where": [["name", "==", port]], "columns": ["name", "up"]}
        for port in ports
    ]
    answers = client.transact(NORTHBOUND_DATABASE, selects) if selects else []
    return [
        port
        for port, answer in zip(ports, answers, strict=True)
        if not any(row["up"] is True for row in answer["rows"])
    ]


def wait_for_ports(client, ports: list[str], timeout: float) -> list[str]:
    """Wait until the ports are up (ovn-architecture, "Life Cycle of a VIF"); returns those that are not in time.

    `timeout` is in seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        missing = ports_not_up(client, ports)
        if not missing or time.monotonic() >= deadline:
            return missing
        time.sleep(0.1)
