# SPDX-License-Identifier: Apache-2.0
"""One end of a TCP stream whose bytes are compared, run on a host by `tests.lab.remote_program`.

`send` writes a piece every few milliseconds, if the kernel takes it. `receive` prints for each line of input what has
arrived since the one before: bytes, and the longest time without any in seconds, from the last arrival before it to
now. Both print at the end of the input how much there was in all, and the error that ended the stream, if any.
"""

import contextlib
import json
import os
import select
import socket
import sys
import time

PATTERN = bytes(range(251)) * 600
# Packets of full size, and no more than the fallback carries on a busy machine.
PIECE, PAUSE = 1500, 0.02


def say(what):
    print(json.dumps(what), flush=True)


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def send(address, port):
    """Send until the input ends."""
    sent, error = 0, None
    with socket.create_connection((address, port), 60) as opened:
        opened.setblocking(False)
        say("connected")
        while not select.select([sys.stdin], [], [], PAUSE)[0]:
            start = sent % 251
            try:
                with contextlib.suppress(BlockingIOError):
                    sent += opened.send(PATTERN[start : start + PIECE])
            except OSError as failure:
                error = str(failure)
                break
        say({"sent": sent, "error": error})


def receive(address, port):
    """Receive until the sender ends."""
    with socket.create_server((address, port), family=family(address)) as listening:
        say("ready")
        opened = listening.accept()[0]
    total = since = 0
    latest, longest, error = time.monotonic(), 0.0, None
    with opened:
        while True:
            readable = select.select([opened, sys.stdin], [], [], 60)[0]
            now = time.monotonic()
            longest = max(longest, now - latest)
            if opened in readable:
                try:
                    data = opened.recv(1 << 17)
                except OSError as failure:
                    error = str(failure)
                    break
                if not data:
                    break
                start = total % 251
                if data != PATTERN[start : start + len(data)]:
                    error = f"other bytes than were sent, after {total}"
                    break
                total, since, latest = total + len(data), since + len(data), now
            if sys.stdin in readable:
                if not sys.stdin.readline():
                    break
                say({"received": since, "gap": round(longest, 3)})
                since, longest = 0, 0.0
    say({"received": total, "error": error})


if __name__ == "__main__":
    verb, *words = json.loads(os.environ["WORDS"])
    {"send": send, "receive": receive}[verb](*words)
