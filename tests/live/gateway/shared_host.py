# SPDX-License-Identifier: Apache-2.0
"""A host of the tests of gateways that several tests of a file use, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from inspect import signature

import pytest

from tests.live.conftest import Server, Toolbox, short_folder, start_northd, stop


class SharedHost:
    """The host that a test has started, for the next one that wants the same.

    It is started anew for other arguments, when it has got another plan, and after a test that failed.
    """

    def __init__(self, tools: Toolbox, host: type, find_daemons: Callable, apply_to_host: Callable) -> None:
        self._tools, self._host, self._find_daemons, self._apply = tools, host, find_daemons, apply_to_host
        self._stack = ExitStack()
        self._key = ""
        self._made: tuple | None = None

    def take(self, monkeypatch: pytest.MonkeyPatch, *arguments, **facts) -> tuple:
        """Return the host to which this was applied."""
        wanted = signature(self._apply).bind(None, None, None, *arguments, **facts)
        wanted.apply_defaults()
        key = repr(wanted.arguments)
        if self._made is None or key != self._key or self._made[1].plan is not self._made[2]:
            self.end()
            self._key, self._made = key, self._start(monkeypatch, *arguments, **facts)
        else:
            self._find_daemons(self._made[0].folder, monkeypatch)
            self._made[0].forget()
        return self._made[:2]

    def _start(self, monkeypatch: pytest.MonkeyPatch, *arguments, **facts) -> tuple:
        folder = self._stack.enter_context(short_folder())
        servers = []
        for name in ("Open_vSwitch", "OVN_Northbound", "OVN_Southbound"):
            servers.append(Server(self._tools, folder, name, self._tools.schema(name)))
            self._stack.callback(stop, servers[-1].process)
        vswitch, *databases = servers
        self._stack.callback(stop, start_northd(self._tools, folder, *databases))
        machine = self._host(self._tools, folder, vswitch)
        self._stack.callback(machine.stop)
        self._find_daemons(folder, monkeypatch)
        zone = self._apply(machine, *databases, *arguments, **facts)
        return machine, zone, zone.plan

    def end(self) -> None:
        """End the host."""
        self._stack.close()
        self._made = None
