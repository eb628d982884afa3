# SPDX-License-Identifier: Apache-2.0
"""Waits until ovs-vswitchd has done what the database of Open vSwitch asks for.

It follows the number `next_cfg`, which is counted up with a change; ovs-vswitchd copies it to `cur_cfg` when bridges,
ports and their links are as the rows say (ovs-vswitchd.conf.db(5), "Configuration").
"""

from __future__ import annotations

import time
from functools import partial

from ..common.databases import OPEN_VSWITCH
from .control_socket import VSWITCHD
from .patience import attempts_while_working, processor_seconds
from .wait import Announcement, TimedOut

# Seconds in which ovs-vswitchd does nothing, and most seconds between two reads of the number.
TIMEOUT, _PAUSE = 120.0, 0.05


class Reconfiguration(Announcement):
    """Counts `next_cfg` up in the transaction that completes a change, as ovs-vsctl(8) does."""

    table, column = "Open_vSwitch", "next_cfg"


def await_reconfiguration(client, announced: int | None = None, timeout: float = TIMEOUT) -> None:
    """Wait until ovs-vswitchd has reached a number of `next_cfg`; without `announced` it is counted up here.

    `TimedOut` when ovs-vswitchd has done nothing for `timeout` seconds (`patience.py`).
    """
    start = time.monotonic()
    if announced is None:
        change = Reconfiguration()
        change.committed(client.transact(OPEN_VSWITCH, list(change.operations)))
        announced = change.number or 0
    select = {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["cur_cfg"]}
    for _attempt in attempts_while_working(timeout, partial(processor_seconds, VSWITCHD), _PAUSE):
        rows = client.transact(OPEN_VSWITCH, [select])[0]["rows"]
        if all(row["cur_cfg"] >= announced for row in rows):
            return
    message = f"ovs-vswitchd has not processed the change after {time.monotonic() - start:.0f} s; see its log"
    raise TimedOut(OPEN_VSWITCH, message, rows)


def interface_errors(client, names: list[str]) -> dict[str, str]:
    """Return why ovs-vswitchd could not make interfaces, for those of `names` of which it says so."""
    select = {"op": "select", "table": "Interface", "where": [], "columns": ["name", "error"]}
    rows = client.transact(OPEN_VSWITCH, [select])[0]["rows"]
    # An empty column is an empty set.
    return {row["name"]: row["error"] for row in rows if row["name"] in names and isinstance(row["error"], str)}
