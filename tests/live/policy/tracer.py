# SPDX-License-Identifier: Apache-2.0
"""ovn-trace as a daemon: one process for many traces. It reads the Southbound database once, when it starts."""

from __future__ import annotations

import json
import socket

from tests.live.conftest import START_TIMEOUT, start

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
        return self

    def __exit__(self, *_exception) -> None:
        self._call("exit")

    def trace(self, datapath: str, flow: str) -> str:
        """Return the actions of a packet."""
        found = self._call("trace", "--minimal", datapath, flow)
        assert "ct_state=est" not in found, "start another ovn-trace: this one has no new connections left"
        return found

    def _call(self, method: str, *parameters: str) -> str:
        """Call the daemon: JSON-RPC 1.0 on its control socket (ovs-appctl(8))."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._folder / "trace.ctl"))
            request = {"id": 0, "method": method, "params": list(parameters)}
            connection.sendall(json.dumps(request).encode())
            received, decoder = b"", json.JSONDecoder()
            while part := connection.recv(65536):
                received += part
                try:
                    reply, _end = decoder.raw_decode(received.decode())
                except ValueError:
                    continue
                assert not reply["error"], reply["error"]
                return reply["result"]
        raise ConnectionError(f"{method}: {received!r}")
