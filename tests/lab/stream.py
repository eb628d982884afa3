# SPDX-License-Identifier: Apache-2.0
"""Runs on a host of the lab or in one of its network namespaces: one end of TCP connections.

WORDS: ["receive", port] answers with a line when it listens, and reads all connections to their end. ["send"] reads
lines [address, port, bytes], sends as many bytes over a new connection, and answers with a line when the other end
has read them.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys

_BUFFER = bytes(1 << 18)


def show(value: object) -> None:
    """Write a line of output."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def receive(port: int) -> None:
    """Read each connection until its other end closes it, and close it then."""
    buffer = bytearray(len(_BUFFER))
    with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
        show("listens")
        # Input ends with the connection of ssh, and processes of a namespace keep its interfaces.
        while select.select([listening, sys.stdin], [], [])[0] == [listening]:
            connection, _sender = listening.accept()
            with connection:
                while connection.recv_into(buffer):
                    pass


def send() -> None:
    """Send what the lines of input say."""
    for line in sys.stdin:
        address, port, octets = json.loads(line)
        with socket.create_connection((address, port)) as connection:
            for _piece in range(octets // len(_BUFFER)):
                connection.sendall(_BUFFER)
            connection.shutdown(socket.SHUT_WR)
            # The other end closes the connection when it has read everything.
            show(len(connection.recv(1)))


role, *words = json.loads(os.environ["WORDS"])
{"receive": receive, "send": send}[role](*words)
