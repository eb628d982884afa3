# SPDX-License-Identifier: Apache-2.0
"""The console of a virtual machine behind a socket of the test's own; a real guest is in tests/live/qemu."""

from __future__ import annotations

import re
import socket
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.operations import console


@pytest.mark.parametrize("size", [1, 2, 3, 7, 65536])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("ä€𝄞\r\n", "ä€𝄞"), ("one\r\ntwo\r\n", "one\ntwo"), ("50 %\r100 %\n", "50 %\r100 %"),
        ("no end of line", "no end of line"), ("", ""), ("x" * 1000 + "\n", "x" * 1000),
    ],
)  # fmt: skip
def test_output_is_the_same_in_reads_of_any_size(tmp_path: Path, monkeypatch, output: str, expected: str, size: int):
    path = str(tmp_path / "guest")
    monkeypatch.setattr(console.instance, "socket_of", lambda _name, _which: path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def guest() -> None:
            connection, _address = server.accept()
            with connection:
                asked = b""
                while (found := re.search(rb"echo ([0-9a-f]{16}) \$heddle\n", asked)) is None:
                    asked += connection.recv(1 << 16)
                data = output.encode() + b"\r\n" + found[1] + b" 3\r\n"
                for start in range(0, len(data), size):
                    connection.sendall(data[start : start + size])
                # It stays open, as a console does.
                over.wait()

        over = threading.Event()
        thread = threading.Thread(target=guest)
        thread.start()
        real = socket.socket.recv
        # So that reads are as the guest writes, however fast it does.
        monkeypatch.setattr(
            socket.socket, "recv", lambda one, most: real(one, min(most, size) if most == 1 << 16 else most)
        )
        try:
            assert console._exchange("vm", "true", time.monotonic() + 60) == (3, expected)
        finally:
            over.set()
            thread.join()
