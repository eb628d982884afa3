# SPDX-License-Identifier: Apache-2.0
"""Sends what policies decide about, or counts what has arrived of it; a RemoteProgram.

WORDS are `send` and flows as [KIND, ADDRESS, PORT], or `count` and addresses. Of a flow of the kind `udp` a datagram is
sent every 20 ms, of `tcp` a connection is begun every 200 ms, which ends when it is established, or after a second.
`count` counts echo requests by the address that they were sent to. Prints `"ready"`, then for each line of its input
the totals: for a flow `KIND ADDRESS PORT` what was `sent` and how many connections were `established`, for an address
the number of requests. Runs until its input ends.
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys
import time

INTERVAL, TCP_INTERVAL, PATIENCE = 0.02, 0.2, 1.0
ECHO_REQUEST, ECHO_REQUEST_6 = 8, 128


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Datagrams:
    """UDP, without a wait for answers."""

    interval = INTERVAL

    def __init__(self, address, port):
        self.target, self.due = (address, port), time.monotonic()
        self.socket = socket.socket(family_of(address), socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.totals = {"sent": 0}

    def send(self, now):
        # An address that is not resolved or a full queue: nothing was sent.
        with contextlib.suppress(OSError):
            self.socket.sendto(b"heddle", self.target)
            self.totals["sent"] += 1

    def look(self, now):
        pass


class Connections:
    """TCP, each from a port of its own."""

    interval = TCP_INTERVAL

    def __init__(self, address, port):
        self.target, self.due = (address, port), time.monotonic()
        self.begun, self.last = {}, self.due
        self.totals = {"sent": 0, "established": 0, "longest_gap_ms": 0}

    def send(self, now):
        opened = socket.socket(family_of(self.target[0]), socket.SOCK_STREAM)
        opened.setblocking(False)
        opened.connect_ex(self.target)
        self.begun[opened] = now
        self.totals["sent"] += 1

    def look(self, now):
        writable = select.select([], list(self.begun), [], 0)[1]
        for one, began in list(self.begun.items()):
            established = one in writable and not one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if established:
                self.totals["established"] += 1
                gap = round((now - self.last) * 1000)
                self.totals["longest_gap_ms"] = max(self.totals["longest_gap_ms"], gap)
                self.last = now
            if established or one in writable or now - began > PATIENCE:
                one.close()
                del self.begun[one]


def report(totals):
    """Print totals for each line of input that is there; return whether the input has ended."""
    if not select.select([sys.stdin], [], [], 0)[0]:
        return False
    lines = os.read(0, 4096)
    for _line in lines.splitlines():
        print(json.dumps(totals()), flush=True)
    return not lines


def send(*flows):
    kinds = {"udp": Datagrams, "tcp": Connections}
    sending = {f"{kind} {address} {port}": kinds[kind](address, port) for kind, address, port in flows}
    while not report(lambda: {name: one.totals for name, one in sending.items()}):
        now = time.monotonic()
        for one in sending.values():
            one.look(now)
            if now >= one.due:
                one.due = max(one.due + one.interval, now)
                one.send(now)
        select.select([sys.stdin], [], [], max(0.0, min(one.due for one in sending.values()) - time.monotonic()))


def count(*addresses):
    totals = dict.fromkeys(addresses, 0)
    four = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    six = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    for one in (four, six):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    while not report(lambda: totals):
        ready = select.select([sys.stdin, four, six], [], [])[0]
        target = None
        if four in ready:
            packet = four.recv(2048)
            if packet[(packet[0] & 15) * 4] == ECHO_REQUEST:
                target = socket.inet_ntop(socket.AF_INET, packet[16:20])
        elif six in ready:
            packet, ancillary, _flags, _source = six.recvmsg(2048, 256)
            if packet[0] == ECHO_REQUEST_6:
                target = socket.inet_ntop(socket.AF_INET6, struct.unpack("=16sI", ancillary[0][2])[0])
        if target in totals:
            totals[target] += 1


mode, *words = json.loads(os.environ["WORDS"])
print('"ready"', flush=True)
{"send": send, "count": count}[mode](*words)
