# SPDX-License-Identifier: Apache-2.0
"""Watches for events that undo a host's desired state: a restart of ovs-vswitchd, changed patch ports or bridges,
addresses on an uplink that is attached to a bridge, and removals in the kernel (`removals`).

ovs-vswitchd keeps flows and MAC tables in memory only. Flows refer to ports by number, and patch ports that
ovn-controller recreates get new numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from ...common.databases import OPEN_VSWITCH, VSWITCH_REMOTE
from ...common.sockets.readable import readable
from ...netlink.monitor import UplinkMonitor, host_network_monitor
from ...ovsdb.protocol.errors import OvsdbError
from ...ovsdb.protocol.monitor import Monitor
from ..health.health_check_ports import HealthCheckPorts
from ..health.health_prober_cgroup import ProberCgroup
from .convergence import Converged
from .removals import Removals

PROCESS_FILE = "/run/openvswitch/ovs-vswitchd.pid"
POLL_SECONDS = 0.1
_TABLES = {
    "Bridge": {"columns": ["name"]},
    "Interface": {"columns": ["name", "ofport"], "where": [["type", "==", "patch"]]},
}


class Calls(Protocol):
    """What takes Ansible's calls (`program/resident.py`)."""

    def fileno(self) -> int:
        """Return the descriptor that is waited for."""

    def answer(self) -> None:
        """Have the next call answered; called when it is readable."""

    def reap(self) -> None:
        """Collect processes that have answered one."""


class Events:
    """Reports events since the last call."""

    def __init__(
        self,
        process_file: str = PROCESS_FILE,
        database: str = VSWITCH_REMOTE,
        converged: Callable[[], bool] | None = None,
        calls: Calls | None = None,
        health_checks: HealthCheckPorts | None = None,
    ) -> None:
        self._calls, self._health_checks = calls, health_checks
        self._process_file, self._remote = process_file, database
        self._converged = converged or Converged()
        self._database: Monitor | None = None
        self._process = self._identity()
        self._uplinks, self._removals, self._prober = UplinkMonitor(), Removals(), ProberCgroup()
        self._host_network = host_network_monitor()
        self._ports_differ = self._bridges_differ = False

    def follow(self, uplinks: frozenset[str], prober: str = "") -> None:
        """Set the interfaces that should have no addresses, and which cgroup is the health prober's ("": none)."""
        self._uplinks.names = uplinks
        self._prober.follow(prober)

    def wait(self) -> str | None:
        """Wait a moment; return what happened, or None.

        `switch restarted`, `uplink changed`, `kernel changed`, `host network changed`, `prober restarted`,
        `bridges changed`, `ports changed`.
        The last two are suppressed while a playbook is between a plan and its gateways, when they keep changing.
        """
        ready = self._wait()
        if self._calls:
            self._calls.reap()
            if self._calls in ready:
                self._calls.answer()
        if self._health_checks:
            self._health_checks.ready(ready)
        if self._database in ready:
            self._read()
        process = self._identity()
        if process != self._process:
            self._process = process
            return "switch restarted" if process else None
        if self._uplinks in ready and self._uplinks.changed():
            return "uplink changed"
        if any(source in ready for source in self._removals.sources) and self._removals.changed():
            return "kernel changed"
        if self._host_network in ready and self._host_network.changed():
            return "host network changed"
        if self._prober.changed():
            return "prober restarted"
        if (self._ports_differ or self._bridges_differ) and self._converged():
            event = "bridges changed" if self._bridges_differ else "ports changed"
            self._ports_differ = self._bridges_differ = False
            return event
        return None

    def _wait(self) -> list:
        """Return the readable sources: the database's connection, the kernel's sockets."""
        if self._database is None:
            self._connect()
        sources = [self._uplinks, self._host_network, *self._removals.sources, *self._prober.sources]
        sources += [source for source in (self._database, self._calls) if source]
        if self._health_checks:
            self._health_checks.follow()
            sources += self._health_checks.sources
        return readable(sources, POLL_SECONDS)

    def _identity(self) -> tuple | None:
        """Return an identity of the running ovs-vswitchd; None while there is none."""
        try:
            with open(self._process_file, encoding="utf-8") as text:
                number = int(text.read())
            return number, os.stat(f"/proc/{number}").st_ctime_ns
        except (OSError, ValueError):
            return None

    def _read(self) -> None:
        """Read the database's notifications."""
        try:
            tables = self._database.changed()
        except OvsdbError:
            self._database.close()
            self._database = None
            return
        self._bridges_differ |= "Bridge" in tables
        self._ports_differ |= "Interface" in tables

    def _connect(self) -> None:
        try:
            self._database = Monitor(self._remote, OPEN_VSWITCH, _TABLES)
        except OvsdbError:
            return
        # What happened before is not reported by this connection.
        self._ports_differ = True
