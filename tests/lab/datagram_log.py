# SPDX-License-Identifier: Apache-2.0
"""Runs in network namespaces of a lab's hosts (`remote_program.py`): which endpoint of a Service new connections reach.

WORDS: ["answer", name, port] answers each datagram with a name until its input ends. ["ask", address, port, seconds]
begins a UDP connection each so many seconds, from a port that none had in the last minutes. For each line of input it
prints when the connections that ended since the line before began, as CLOCK_REALTIME has it, and who answered, or an
empty string.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import socket
import sys
import time

FIRST_PORT, LAST_PORT = 1024, 65535
# Seconds after which a connection ends without an answer.
PATIENCE = 5.0


def show(value: object) -> None:
    """Write a line of output."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def answer(name: str, port: int) -> None:
    """Answer until the input ends, which a process of a namespace has to notice: it keeps the namespace's devices."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as opened:
        opened.bind(("::", port))
        show("ready")
        while select.select([opened, sys.stdin], [], [])[0] == [opened]:
            _data, sender = opened.recvfrom(64)
            opened.sendto(name.encode(), sender)


def connection(target: tuple[str, int], ports: itertools.cycle) -> socket.socket:
    """Return a socket of the next port that is free, which has sent a datagram."""
    while True:
        opened = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET, socket.SOCK_DGRAM)
        opened.setblocking(False)
        try:
            opened.bind(("", next(ports)))
            opened.connect(target)
            opened.send(b"x")
        except OSError:
            opened.close()
            continue
        return opened


def ask(address: str, port: int, seconds: float) -> None:
    """Begin connections until the input ends."""
    ports, due = itertools.cycle(range(FIRST_PORT, LAST_PORT)), time.monotonic()
    began: dict[socket.socket, float] = {}
    found: list[tuple[float, str]] = []
    show("ready")
    while True:
        readable = select.select([sys.stdin, *began], [], [], max(0.0, due - time.monotonic()))[0]
        for opened in readable:
            if opened is sys.stdin:
                if not sys.stdin.readline():
                    return
                show(found)
                found = []
                continue
            with opened:
                try:
                    name = opened.recv(64).decode()
                except OSError:
                    # An ICMP error.
                    name = ""
                found.append((began.pop(opened), name))
        now = time.time()
        for opened in [one for one, since in began.items() if since < now - PATIENCE]:
            found.append((began.pop(opened), ""))
            opened.close()
        if time.monotonic() >= due:
            due = max(due + seconds, time.monotonic() - seconds)
            began[connection((address, port), ports)] = now


role, *words = json.loads(os.environ["WORDS"])
{"answer": answer, "ask": ask}[role](*words)
