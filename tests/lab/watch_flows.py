# SPDX-License-Identifier: Apache-2.0
"""Runs on a host, in a namespace: pings an address of each family every 10 ms and keeps one TCP connection busy.

Until its input ends; then it prints one JSON object, flow -> sent, lost, longest gap between answers in ms, resets.
"""

import contextlib
import itertools
import json
import select
import socket
import struct
import sys
import time

INTERVAL = 0.01
# Answers may take this long; what is sent later than this before the end does not count.
PATIENCE = 1.0


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


class Ping:
    """ICMP echo; the answer carries the number of the request."""

    def __init__(self, address):
        self.address, self.six = address, ":" in address
        family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if self.six else (socket.AF_INET, 1)
        self.socket = socket.socket(family, socket.SOCK_RAW, protocol)
        self.socket.setblocking(False)
        self.name = f"ping {address}"
        self.sent, self.answered, self.resets = {}, {}, 0

    def send(self, number, now):
        kind = 128 if self.six else 8
        body = struct.pack("!HHQ", 0x4844, number & 0xFFFF, number)
        text = struct.pack("!BBH", kind, 0, 0 if self.six else checksum(struct.pack("!BBH", kind, 0, 0) + body)) + body
        self.sent[number] = now
        with contextlib.suppress(OSError):  # then it counts as lost
            self.socket.sendto(text, (self.address, 0))

    def receive(self, now):
        packet = self.socket.recv(2048)
        text = packet if self.six else packet[(packet[0] & 15) * 4 :]
        if len(text) >= 16 and text[0] == (129 if self.six else 0):
            self.answered.setdefault(struct.unpack("!Q", text[8:16])[0], now)


class Stream:
    """One TCP connection to an echo server."""

    def __init__(self, address, port):
        self.socket = socket.create_connection((address, port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.name = f"tcp {address}"
        self.sent, self.answered, self.resets = {}, {}, 0
        self.pending, self.heard = b"", b""

    def send(self, number, now):
        self.sent[number] = now
        self.pending += struct.pack("!Q", number)
        try:
            self.pending = self.pending[self.socket.send(self.pending) :]
        except BlockingIOError:
            pass
        except OSError:
            self.resets += 1

    def receive(self, now):
        try:
            data = self.socket.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.resets += 1
            self.socket.close()
        self.heard += data
        while len(self.heard) >= 8:
            self.answered[struct.unpack("!Q", self.heard[:8])[0]] = now
            self.heard = self.heard[8:]


def summary(flow, end):
    counted = [number for number, sent in flow.sent.items() if sent < end - PATIENCE]
    answers = sorted(flow.answered.values())
    gaps = [later - earlier for earlier, later in itertools.pairwise(answers)]
    return {
        "sent": len(counted),
        "lost": sum(number not in flow.answered for number in counted),
        "longest_gap_ms": round(max(gaps, default=0) * 1000),
        "resets": flow.resets,
    }


def main():
    *addresses, port = sys.argv[1:]
    flows = [Ping(address) for address in addresses] + [Stream(address, int(port)) for address in addresses]
    number, following = 0, time.monotonic()
    print("ready", flush=True)
    while True:
        sockets = {flow.socket: flow for flow in flows if flow.socket.fileno() >= 0}
        ready, _, _ = select.select([sys.stdin, *sockets], [], [], max(0, following - time.monotonic()))
        now = time.monotonic()
        if sys.stdin in ready:
            break
        for one in ready:
            sockets[one].receive(now)
        if now >= following:
            number += 1
            for flow in sockets.values():
                flow.send(number, now)
            following = max(following + INTERVAL, now)
    print(json.dumps({flow.name: summary(flow, now) for flow in flows}))


main()
