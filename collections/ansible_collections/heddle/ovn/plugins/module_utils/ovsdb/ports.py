# SPDX-License-Identifier: Apache-2.0
"""Waits until OVN has bound logical ports and installed their flows.

Both are read where the host's ovn-controller writes them, as soon as Open vSwitch has confirmed the flows (OVN 25.03,
`controller/if-status.c`). `up` of the Northbound has nothing to add to them: northd copies `up` of the Southbound's
Port_Binding, in its next run. After a new network that is one of all networks, and northd is in another such run and
pauses after it, when ovn-controller writes (`wait.py`).
"""

from __future__ import annotations

from ..common.databases import OPEN_VSWITCH, OVN_SOUTHBOUND
from ..common.polling import attempts
from .values import map_pairs
from .wait import wait_until

# Most seconds between two reads of all ports: a port is up about half a second after its interface was added.
_PAUSE = 0.2
# One select of all, also of ports: the databases have no index on names, so a query by name would scan the table for
# each port.
_INSTALLED = {
    "op": "select", "table": "Interface", "columns": ["external_ids"],
    "where": [["external_ids", "includes", ["map", [["ovn-installed", "true"]]]]],
}  # fmt: skip
_BOUND = (
    {"op": "select", "table": "Port_Binding", "where": [["type", "==", ""]],
     "columns": ["logical_port", "chassis", "up"]},
    {"op": "select", "table": "Chassis", "columns": ["_uuid"],
     "where": [["other_config", "excludes", ["map", [["is-remote", "true"]]]]]},
)  # fmt: skip


def ports_not_up(switch, southbound, ports: list[str]) -> list[str]:
    """Return the given ports that are not bound to this host, or not all of whose flows are installed.

    `switch` and `southbound` are connected to the databases of Open vSwitch and of OVN. A port needs both marks. An
    interface that was made anew has none of its own yet, while the port still counts as up. A port that was made anew,
    or that an interface stands for since now, is not up yet, while the interface may have the mark of before.
    """
    if not ports:
        return []
    installed = _interface_ids(switch.transact(OPEN_VSWITCH, [_INSTALLED])[0]["rows"])
    bindings, chassis = southbound.transact(OVN_SOUTHBOUND, list(_BOUND))
    here = [row["_uuid"] for row in chassis["rows"]]
    up = {row["logical_port"] for row in bindings["rows"] if row["up"] is True and row["chassis"] in here}
    return [port for port in ports if port not in installed or port not in up]


def _interface_ids(rows: list[dict]) -> set[str | None]:
    """Return the names of the ports that interfaces stand for."""
    return {map_pairs(row["external_ids"]).get("iface-id") for row in rows}


def wait_for_flows(client, ports: list[str], timeout: float) -> None:
    """Wait until ovn-controller has bound the ports on this host and installed their flows; TimedOut otherwise.

    A port that has its first chassis elsewhere is never reported up here, but its interface is marked (OVN,
    `controller/binding.c`, `ovn-installed`).
    """
    wait_until(
        client, OPEN_VSWITCH, "Interface", _INSTALLED["where"], _INSTALLED["columns"],
        lambda rows: set(ports) <= _interface_ids(rows),
        timeout,
    )  # fmt: skip


def wait_for_ports(switch, southbound, ports: list[str], timeout: float) -> list[str]:
    """Wait until the ports are up, as `ports_not_up` has it; return those that are not in time.

    `timeout` is in seconds.
    """
    missing = ports
    for _attempt in attempts(timeout, shortest=0.05, longest=_PAUSE):
        missing = ports_not_up(switch, southbound, ports)
        if not missing:
            break
    return missing
