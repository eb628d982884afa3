# SPDX-License-Identifier: Apache-2.0
"""ovn-trace as a daemon: one process for many traces. It reads the Southbound database once, when it starts."""

from __future__ import annotations

from tests.live.conftest import START_TIMEOUT, start
from tests.live.control_socket import ControlSocket

# Connection tracking lookups that find a new connection, of all packets together; what comes later is established.
_LOOKUPS = 20_000


class Tracer:
    """Use it as a context manager, once for each state of the Southbound database.

    Every connection is a new one, wherever it is looked up.
    """

    def __init__(self, tools, folder, southbound) -> None:
        self._tools, self._folder, self._southbound = tools, folder, southbound

    def __enter__(self) -> Tracer:
        process = start(
            self._tools, self._folder, "trace", "ovn-trace", f"--db={self._southbound.remote}", "--detach",
            "--no-chdir", *["--ct=new"] * _LOOKUPS,
        )  # fmt: skip
        # It detaches when it has read the database.
        assert process.wait(START_TIMEOUT) == 0
        self._control = ControlSocket(self._folder / "trace.ctl")
        return self

    def __exit__(self, *_exception) -> None:
        self._control.call("exit")
        self._control.close()

    def trace(self, datapath: str, flow: str) -> str:
        """Return the actions of a packet."""
        found = self._control.call("trace", "--minimal", datapath, flow)
        assert "ct_state=est" not in found, "start another ovn-trace: this one has no new connections left"
        return found
