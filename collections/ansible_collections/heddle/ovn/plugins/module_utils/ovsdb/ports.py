# SPDX-License-Identifier: Apache-2.0
"""Waits until OVN has bound logical ports and set them up."""

from __future__ import annotations

from ..common.databases import OPEN_VSWITCH, OVN_NORTHBOUND
from ..common.polling import attempts
from .values import map_pairs
from .wait import wait_until

# Most seconds between two reads of all ports: a port is up about half a second after its interface was added.
_PAUSE = 0.2


def ports_not_up(client, ports: list[str]) -> list[str]:
    """Return the given logical switch ports that are not up, or do not exist."""
    # One select of all ports: the database has no index on names, so a query by name would scan the table for each
    # port.
    select = {"op": "select", "table": "Logical_Switch_Port", "where": [["type", "==", ""]], "columns": ["name", "up"]}
    rows = client.transact(OVN_NORTHBOUND, [select])[0]["rows"] if ports else []
    up = {row["name"] for row in rows if row["up"] is True}
    return [port for port in ports if port not in up]


def wait_for_flows(client, ports: list[str], timeout: float) -> None:
    """Wait until ovn-controller has bound the ports on this host and installed their flows; TimedOut otherwise.

    A port that has its first chassis elsewhere is never reported up here, but its interface is marked (OVN,
    `controller/binding.c`, `ovn-installed`).
    """
    wait_until(
        client, OPEN_VSWITCH, "Interface", [["external_ids", "includes", ["map", [["ovn-installed", "true"]]]]],
        ["external_ids"],
        lambda rows: set(ports) <= {map_pairs(row["external_ids"]).get("iface-id") for row in rows},
        timeout,
    )  # fmt: skip


def wait_for_ports(client, ports: list[str], timeout: float) -> list[str]:
    """Wait until the ports are up (ovn-architecture, "Life Cycle of a VIF"); return those that are not in time.

    `timeout` is in seconds.
    """
    missing = ports
    for _attempt in attempts(timeout, shortest=0.05, longest=_PAUSE):
        missing = ports_not_up(client, ports)
        if not missing:
            break
    return missing
