# SPDX-License-Identifier: Apache-2.0
"""Two ends of datagrams that are larger than any packet, run on hosts by `remote_program.py`.

`echo` returns each datagram to its sender, its first word replaced by its own, and the address that it came from; it
runs until its input ends. `ask` sends a datagram to each target until each has answered, or for some seconds, and
prints for each what answered and the address that it saw, and null for none or other contents.
"""

import contextlib
import json
import os
import select
import socket
import sys
import time

SIZE, MOST = 4000, 65535
AGAIN = 1.0


def filled(*words):
    """Return the words as a datagram of full size, whose every part differs."""
    text = " ".join(words) + " "
    return (text + "".join(f"{number:05} " for number in range(SIZE)))[:SIZE].encode()


def echo(name, port):
    """Answer until the input ends."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind(("::", port))
        print('"ready"', flush=True)
        while True:
            readable, _, _ = select.select([opened, sys.stdin], [], [])
            if sys.stdin in readable:
                return
            data, sender = opened.recvfrom(MOST)
            number = data.partition(b" ")[0].decode()
            if data == filled(number):
                opened.sendto(filled(number, name, sender[0].removeprefix("::ffff:")), sender)


def answered(data, place):
    """Return name and address of an answer to a question, None for anything else."""
    number, name, seen, *_rest = [*data.decode().split(" ", 3), "", ""]
    return [name, seen] if number == str(place) and data == filled(number, name, seen) else None


def ask(limit, targets):
    """Ask all targets."""
    opened = {}
    for place, (address, port) in enumerate(targets):
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        # An answer from another address is none.
        one.connect((address, port))
        one.setblocking(False)
        opened[one] = place
    found, due, end = {}, 0.0, time.monotonic() + limit
    while len(found) < len(targets) and time.monotonic() < end:
        waiting = [one for one, place in opened.items() if place not in found]
        if time.monotonic() >= due:
            due = time.monotonic() + AGAIN
            for one in waiting:
                with contextlib.suppress(OSError):
                    one.send(filled(str(opened[one])))
        for one in select.select(waiting, [], [], max(0.0, min(due, end) - time.monotonic()))[0]:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                answer = answered(one.recv(MOST), opened[one])
                if answer:
                    found[opened[one]] = answer
    print(json.dumps([found.get(place) for place in range(len(targets))]))


if __name__ == "__main__":
    verb, *words = json.loads(os.environ["WORDS"])
    {"echo": echo, "ask": ask}[verb](*words)
