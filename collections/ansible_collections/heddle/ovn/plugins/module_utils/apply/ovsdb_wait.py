# SPDX-License-Identifier: Apache-2.0
"""Waiting until a Northbound change is carried out (ovn-architecture, "Information Flow")."""

from __future__ import annotations

import time

from ..ovsdb_client import OvsdbError

NORTHBOUND = "OVN_Northbound"
_LONGEST_PAUSE = 0.25


class NotCarriedOut(OvsdbError):
    """ovn-northd or ovn-controller did not answer in time."""

    def __init__(self, details: str) -> None:
        super().__init__(NORTHBOUND, "timed out", details)

    def __str__(self) -> str:
        return self.details


def _sequence(client) -> dict:
    select = {"op": "select", "table": "NB_Global", "where": [], "columns": ["nb_cfg", "sb_cfg", "hv_cfg"]}
    rows = client.transact(NORTHBOUND, [select])[0]["rows"]
    return rows[0] if rows else {"nb_cfg": 0, "sb_cfg": 0, "hv_cfg": 0}


def caught_up(client) -> bool:
    """Tell whether everything that was announced so far is carried out."""
    seen = _sequence(client)
    return seen["sb_cfg"] >= seen["nb_cfg"] and seen["hv_cfg"] >= seen["nb_cfg"]


def synchronise(client, timeout: float) -> dict:
    """Announce a change in `nb_cfg` and wait for `sb_cfg` (northd) and `hv_cfg` (ovn-controller) to reach it.

    Returns the three numbers and how many `seconds` it took; NotCarriedOut after `timeout` seconds, naming which of
    the two daemons is behind.
    """
    start = time.monotonic()
    client.transact(
        NORTHBOUND, [{"op": "mutate", "table": "NB_Global", "where": [], "mutations": [["nb_cfg", "+=", 1]]}]
    )
    target = _sequence(client)["nb_cfg"]
    pause = 0.01
    while True:
        seen = _sequence(client)
        seconds = time.monotonic() - start
        if seen["sb_cfg"] >= target and seen["hv_cfg"] >= target:
            return {**seen, "seconds": seconds}
        if seconds > timeout:
            behind = "ovn-northd" if seen["sb_cfg"] < target else "ovn-controller"
            raise NotCarriedOut(f"{behind} has not carried the change out after {timeout} s; see its log on this host")
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
