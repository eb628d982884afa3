# SPDX-License-Identifier: Apache-2.0
"""Runs in a namespace: a new connection to a host every 100 ms, and one to the next port, which echoes.

Until its input ends.
"""

import contextlib
import select
import socket
import sys
import time

INTERVAL, PATIENCE = 0.1, 1.0


def knock(target):
    """Begin a connection; the other end closes it."""
    opened = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET, socket.SOCK_STREAM)
    opened.setblocking(False)
    opened.connect_ex(target)
    return opened


def main():
    address, port = sys.argv[1], int(sys.argv[2])
    lasting = socket.create_connection((address, port + 1), timeout=120)
    lasting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    knocking, following = {}, time.monotonic()
    while True:
        heard = [lasting] if lasting.fileno() >= 0 else []
        ready, _, _ = select.select([sys.stdin, *heard], [], [], max(0.0, following - time.monotonic()))
        if sys.stdin in ready:
            return
        now = time.monotonic()
        if lasting in ready:
            with contextlib.suppress(OSError):
                data = lasting.recv(65536)
                if data:
                    lasting.sendall(data)
                else:
                    lasting.close()
        if now >= following:
            following = max(following + INTERVAL, now)
            for opened in [one for one, began in knocking.items() if now - began > PATIENCE]:
                opened.close()
                del knocking[opened]
            with contextlib.suppress(OSError):
                knocking[knock((address, port))] = now


main()
