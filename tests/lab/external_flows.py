# SPDX-License-Identifier: Apache-2.0
"""Runs on an external host: answers connections on pairs of ports, and prints their figures.

For each name there are two ports. On the first, every connection is noted and closed: how long was there none? On the
second, numbers are sent every 10 ms on each connection and should come back: how long did they not, what was the end?
Arguments are NAME=PORT; the second port is the next one. Prints "ready". Each line of its input ends a phase; when its
input ends, it prints a JSON list, one object per phase.
"""

import contextlib
import itertools
import json
import os
import select
import socket
import struct
import sys
import time

INTERVAL = 0.01


class Newcomers:
    """Connections that are closed at once: when they came, and how often from which address."""

    def __init__(self):
        self.times, self.sources = [time.monotonic()], {}

    def accept(self, connection, address, now):
        self.times.append(now)
        self.sources[address] = self.sources.get(address, 0) + 1
        connection.close()

    def as_dict(self, now):
        gaps = [later - earlier for earlier, later in itertools.pairwise([*self.times, now])]
        found = {
            "connections": len(self.times) - 1,
            "longest_gap_ms": round(max(gaps) * 1000),
            # No further client has connected.
            "to_the_end": gaps[-1] == max(gaps),
            "sources": self.sources,
        }
        self.times, self.sources = self.times[-1:], {}
        return found


class Lasting:
    """Connections that stay: one dictionary of figures each."""

    def __init__(self):
        self.flows = {}

    def accept(self, connection, address, now):
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.flows[connection] = {"source": address, "sent": 0, "back": 0, "last": now, "longest": 0.0, "end": None}

    def open(self):
        return [connection for connection, flow in self.flows.items() if flow["end"] is None]

    def send(self, number):
        for connection in self.open():
            flow = self.flows[connection]
            try:
                connection.send(struct.pack("!Q", number))
                flow["sent"] += 1
            except BlockingIOError:
                pass
            except OSError as error:
                flow["end"] = error.strerror

    def receive(self, connection, now):
        flow = self.flows[connection]
        try:
            data = connection.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            flow["end"] = error.strerror
            return
        if not data:
            flow["end"] = "closed"
            return
        flow["longest"] = max(flow["longest"], now - flow["last"])
        flow["back"] += len(data) / 8
        flow["last"] = now

    def as_dict(self, now):
        found = []
        for connection, flow in list(self.flows.items()):
            silent = 0 if flow["end"] else now - flow["last"]
            found.append(
                {
                    "source": flow["source"],
                    "sent": flow["sent"],
                    "back": int(flow["back"]),
                    "longest_gap_ms": round(max(flow["longest"], silent) * 1000),
                    "end": flow["end"] or ("silent" if silent > 1 else None),
                }
            )
            flow |= {"sent": 0, "back": 0, "longest": 0.0}
            if flow["end"]:
                connection.close()
                del self.flows[connection]
        return found


def listener(port):
    opened = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
    opened.setblocking(False)
    return opened


def main():
    groups, listening, phases = {}, {}, []
    for argument in sys.argv[1:]:
        name, _, port = argument.partition("=")
        groups[name] = {"new": Newcomers(), "lasting": Lasting()}
        for place, group in enumerate(groups[name].values()):
            listening[listener(int(port) + place)] = group
    lasting = [group["lasting"] for group in groups.values()]
    print("ready", flush=True)
    number, following, ended = 0, time.monotonic(), False
    while not ended:
        flows = {connection: group for group in lasting for connection in group.open()}
        waiting = max(0.0, following - time.monotonic())
        ready, _, _ = select.select([0, *listening, *flows], [], [], waiting)
        now = time.monotonic()
        if 0 in ready:
            lines = os.read(0, 4096)
            ended = not lines
            for _line in lines.splitlines():
                phases.append(
                    {name: {kind: group[kind].as_dict(now) for kind in group} for name, group in groups.items()}
                )
        for one in ready:
            if one in listening:
                with contextlib.suppress(OSError):
                    connection, address = one.accept()
                    listening[one].accept(connection, address[0].removeprefix("::ffff:"), now)
            elif one in flows:
                flows[one].receive(one, now)
        if now >= following:
            number += 1
            following = max(following + INTERVAL, now)
            for group in lasting:
                group.send(number)
    print(json.dumps(phases))


main()
