# SPDX-License-Identifier: Apache-2.0
"""Throughput between two network namespaces of this machine."""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
import time

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel

_BUFFER = bytes(1 << 18)
_SMALL = bytes(64)
_PORT = 5300


def rate(source: str, target: str, address: str, seconds: float) -> float:
    """Return Mbit/s of one TCP connection to an address, in the second half of its time."""
    with _stream(source, target, address) as (sending, marks):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sending.sendall(_BUFFER)
    half = next(mark for mark in marks if mark[0] >= marks[0][0] + seconds / 2)
    return 8e-6 * (marks[-1][1] - half[1]) / max(marks[-1][0] - half[0], 1e-9)


def transfer(source: str, target: str, address: str, octets: int) -> None:
    """Send bytes over one TCP connection to an address; returns when all have arrived."""
    with _stream(source, target, address) as (sending, _marks):
        for _piece in range(octets // len(_BUFFER)):
            sending.sendall(_BUFFER)


@contextlib.contextmanager
def _stream(source: str, target: str, address: str):
    """Yield a connected socket, and when how many bytes had arrived; all have at the end."""
    with kernel.in_netns(target):
        listening = socket.create_server((address, 0), family=_family(address))
    with kernel.in_netns(source):
        sending = socket.socket(_family(address))
    with listening, sending:
        sending.settimeout(60)
        sending.connect(listening.getsockname()[:2])
        receiving = listening.accept()[0]
        marks: list[tuple[float, int]] = []
        reader = threading.Thread(target=_read, args=(receiving, marks))
        reader.start()
        yield sending, marks
        sending.shutdown(socket.SHUT_WR)
        reader.join()
        receiving.close()


def datagrams(source: str, target: str, address: str, count: int) -> int:
    """Send datagrams of 64 bytes to an address, in turns with their receiver; return how many have arrived."""
    with _ends(source, target, address) as (sending, receiving):
        receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        arrived = 0
        for _turn in range(count // 32):
            for _packet in range(32):
                sending.send(_SMALL)
            arrived += _drained(receiving)
        receiving.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while arrived < count:
                receiving.recv(64)
                arrived += 1
        return arrived


def _read(receiving: socket.socket, marks: list[tuple[float, int]]) -> None:
    total, buffer = 0, bytearray(len(_BUFFER))
    while count := receiving.recv_into(buffer):
        total += count
        marks.append((time.monotonic(), total))


def small_packets(source: str, target: str, address: str, seconds: float) -> float:
    """Return how many datagrams of 64 bytes arrive in a second."""
    with _ends(source, target, address) as (sending, receiving):
        receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        arrived, began = 0, time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            # In turns: on one processor a sender alone would fill the buffer.
            for _packet in range(32):
                with contextlib.suppress(BlockingIOError):
                    sending.send(_SMALL)
            arrived += _drained(receiving)
        return arrived / (now - began)


def first_packet(source: str, target: str, address: str, forget, rounds: int) -> float:
    """Return the median of the seconds that a datagram takes after `forget` was called."""
    found = []
    with _ends(source, target, address) as (sending, receiving):
        receiving.settimeout(20)
        for number in range(rounds):
            forget()
            began = time.perf_counter()
            sending.send(bytes([number]))
            while receiving.recv(1) != bytes([number]):
                continue
            found.append(time.perf_counter() - began)
    return statistics.median(found)


@contextlib.contextmanager
def _ends(source: str, target: str, address: str):
    family = _family(address)
    with kernel.in_netns(target):
        receiving = socket.socket(family, socket.SOCK_DGRAM)
    with kernel.in_netns(source):
        sending = socket.socket(family, socket.SOCK_DGRAM)
    with receiving, sending:
        receiving.bind((address, _PORT))
        sending.connect((address, _PORT))
        receiving.setblocking(False)
        yield sending, receiving


def _drained(receiving: socket.socket) -> int:
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            receiving.recv(64)
            count += 1
    return count


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
