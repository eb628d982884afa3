# SPDX-License-Identifier: Apache-2.0
"""A socket of rtnetlink(7) that sends and reads messages as bytes: a host has thousands of them in each run.

pyroute2 decodes every attribute of a message, which takes twenty times as long as the kernel needs for it. The engine
for workloads uses this one, because its work grows with the workloads of a host.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from .raw_messages import ATTRIBUTE, HEADER, SOL_NETLINK
from .rtnetlink import U32

# linux/netlink.h
REQUEST, ACKNOWLEDGE, DUMP, INTERRUPTED = 0x1, 0x4, 0x300, 0x10
REPLACE, EXCLUSIVE, CREATE = 0x100, 0x200, 0x400
_ERROR, _DONE = 2, 3
_STRICT_CHECK = 12
_NUMBER = struct.Struct("=i")
_LARGEST = 1 << 16
_RECEIVE_BUFFER = 1 << 20


class DumpInterrupted(OSError):
    """A list changed while it was read (NLM_F_DUMP_INTR); it may lack entries."""


def attribute(kind: int, value: bytes | str | int) -> bytes:
    """Return an attribute; text ends with a zero byte, a number has 32 bits."""
    if isinstance(value, str):
        value = value.encode() + b"\0"
    elif isinstance(value, int):
        value = U32.pack(value)
    length = ATTRIBUTE.size + len(value)
    return ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


class RawSocket:
    """A socket in the network namespace in which this was created; usable as a context manager."""

    def __init__(self, protocol: int = socket.NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        # The kernel itself leaves out what a dump does not ask for.
        self._socket.setsockopt(SOL_NETLINK, _STRICT_CHECK, 1)

    def __enter__(self) -> RawSocket:
        return self

    def __exit__(self, *_exception) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        """Return the bodies of the answers to a dump; DumpInterrupted when it is inconsistent, or another OSError."""
        self._send((kind, DUMP, body))
        found, interrupted = [], False
        for answer, flags, content in self._answers():
            interrupted = interrupted or bool(flags & INTERRUPTED)
            if answer in (_DONE, _ERROR):
                failed = -_NUMBER.unpack_from(content)[0]
                if failed:
                    raise OSError(failed, os.strerror(failed))
                break
            found.append(content)
        if interrupted:
            raise DumpInterrupted("the kernel's list changed while it was read")
        return found

    def request(self, *messages: tuple[int, int, bytes]) -> None:
        """Send messages (type, flags, body) at once, which the kernel performs in this order.

        Raises the OSError of the first one that it rejects; those after it are performed nevertheless.
        """
        self._send(*((kind, flags | ACKNOWLEDGE, body) for kind, flags, body in messages))
        left, failed = len(messages), 0
        for answer, _flags, content in self._answers():
            if answer == _ERROR:
                failed = failed or -_NUMBER.unpack_from(content)[0]
                left -= 1
                if not left:
                    break
        if failed:
            raise OSError(failed, os.strerror(failed))

    def ask(self, kind: int, body: bytes) -> bytes:
        """Return the body of the one answer to a message; OSError when the kernel rejects it."""
        self._send((kind, 0, body))
        answer, _flags, content = next(self._answers())
        if answer == _ERROR:
            failed = -_NUMBER.unpack_from(content)[0]
            raise OSError(failed, os.strerror(failed))
        return content

    def _send(self, *messages: tuple[int, int, bytes]) -> None:
        self._socket.send(
            b"".join(
                HEADER.pack(HEADER.size + len(body), kind, REQUEST | flags, number, 0) + body + bytes(-len(body) % 4)
                for number, (kind, flags, body) in enumerate(messages, start=1)
            )
        )

    def _answers(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield type, flags and body of messages as they come."""
        while True:
            data = self._socket.recv(_LARGEST)
            start = 0
            while start + HEADER.size <= len(data):
                length, kind, flags, _number, _port = HEADER.unpack_from(data, start)
                yield kind, flags, data[start + HEADER.size : start + length]
                start += (length + 3) & ~3
