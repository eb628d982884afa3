# SPDX-License-Identifier: Apache-2.0
"""What a client read from a server, as digests, and whether a server still replies the same.

A standalone ovsdb-server has no number that changes with its rows: `monitor_cond_since` knows the transactions of
clusters only (ovsdb-server(7), 4.1.15), and reading every `_version` takes the server as long as reading the rows. So
all rows are read again, but only hashed: decoding and comparing them takes a client longer than the server needs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator

from .errors import Unreachable
from .remotes import open_stream, parse_remotes
from .stream import CHUNK, Stream

# How ovsdb-server ends a reply without an error. A text in it cannot contain this: its quotation marks are escaped.
_END, _RESULT, _REFUSED = b'"error":null}', b'"result":', b'"result":null,"error":{'
_ROWS, _ROWS_END, _NEXT_ROW = b'{"rows":[', b"]}", b'},{"'
_READS = frozenset({"select", "wait"})


class Trace:
    """The requests of a connection, [method, parameters], and the digests of their replies."""

    def __init__(self) -> None:
        self._requests: dict[int, list] = {}
        self._replies: dict[int, str] = {}

    def sent(self, identifier: int, method: str, parameters: list) -> None:
        """Note a request."""
        self._requests[identifier] = [method, parameters]

    def received(self, identifier: int, text: str) -> None:
        """Note the reply to a request, as the server sent it."""
        if identifier in self._requests:
            self._replies[identifier] = _digest(text.encode())

    def read(self) -> dict | None:
        """Return `requests` and the digests of their `replies` in order; None unless all were reads with replies."""
        if self._requests.keys() != self._replies.keys() or not reads_only(list(self._requests.values())):
            return None
        return {"requests": list(self._requests.values()), "replies": [self._replies[one] for one in self._requests]}


@contextlib.contextmanager
def traced(client) -> Iterator[Trace]:
    """Trace what a client of one server sends and receives."""
    trace = Trace()
    client.trace(trace)
    try:
        yield trace
    finally:
        client.trace(None)


def reads_only(requests: list) -> bool:
    """Whether none of the requests could write."""
    return all(
        method == "get_schema"
        or (method == "transact" and all(operation["op"] in _READS for operation in parameters[1:]))
        for method, parameters in requests
    )


def replies_equal(remote: str, read: dict, timeout: float) -> bool:
    """Whether a server replies to the requests of `Trace.read` as it did then; also False when it does not answer."""
    requests, replies = read["requests"], read["replies"]
    if not requests or len(requests) != len(replies) or not reads_only(requests):
        return False
    try:
        stream = open_stream(parse_remotes(remote)[0], timeout, None)
    except Unreachable:
        return False
    try:
        text = "".join(
            json.dumps({"method": method, "params": parameters, "id": number}, separators=(",", ":"))
            for number, (method, parameters) in enumerate(requests)
        )
        _send(stream, text.encode(), timeout)
        found = _replies(stream, timeout)
        return all(next(found, None) == wanted for wanted in replies)
    except OSError:
        return False
    finally:
        stream.close()


def _send(stream: Stream, data: bytes, timeout: float) -> None:
    view = memoryview(data)
    while view:
        if not stream.wait(timeout, write=True)[1]:
            raise TimeoutError
        view = view[stream.send(view) :]


def _replies(stream: Stream, timeout: float) -> Iterator[str]:
    """Yield the digests of replies in order, until one is an error or the server is silent or gone."""
    buffer = bytearray()
    while True:
        searched = 0
        while (end := buffer.find(_END, searched)) < 0:
            searched = max(0, len(buffer) - len(_END))
            if (len(buffer) < CHUNK and _REFUSED in buffer) or not stream.wait(timeout)[0]:
                return
            data = stream.receive()
            if data is None:
                continue
            if not data:
                return
            buffer += data
        end += len(_END)
        yield _digest(bytes(buffer[:end]))
        del buffer[:end]


def _digest(reply: bytes) -> str:
    """Return the digest of a reply from its result on: before it is the number of the request.

    Rows count in any order: the server's own changes when it writes a row, as ovs-vswitchd lets it do for each
    interface with packets every few seconds. Where rows begin and end is a quotation mark, which texts in them have
    escaped only.
    """
    head, *lists = reply[reply.find(_RESULT) :].split(_ROWS)
    found = hashlib.sha256(head)
    for text in lists:
        rows, _end, rest = text.rpartition(_ROWS_END)
        inner = rows.removeprefix(b'{"').removesuffix(b"}")
        found.update(_ROWS + _NEXT_ROW.join(sorted(inner.split(_NEXT_ROW))) + _ROWS_END + rest)
    return found.hexdigest()[:32]
