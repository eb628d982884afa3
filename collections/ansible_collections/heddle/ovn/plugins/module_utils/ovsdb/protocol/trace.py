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
import re
from collections.abc import Collection, Iterator
from itertools import islice

from .errors import Unreachable
from .remotes import open_stream, parse_remotes
from .stream import CHUNK, Stream

# How ovsdb-server ends a reply without an error. A text in it cannot contain this: its quotation marks are escaped.
_END, _RESULT, _REFUSED = b'"error":null}', b'"result":', b'"result":null,"error":{'
_ROWS, _ROWS_END, _NEXT_ROW = b'{"rows":[', b"]}", b'},{"'
# A row begins after `{"`; the name of a column comes after a comma otherwise.
_IDENTITY = re.compile(rb'(?:\A|,")_uuid":\["uuid","([0-9a-f-]{36})"\]')
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
    if not _usable(read):
        return False
    with contextlib.closing(_asked(remote, read["requests"], timeout)) as found:
        return all(_digest(next(found, b"")) == wanted for wanted in read["replies"])


class Replies:
    """How a server replies to the requests of `Trace.read`; rows can be replaced by others.

    All requests have to select `_uuid`.
    """

    def __init__(self, requests: list, replies: list[bytes]) -> None:
        self._requests = requests
        self._parts = [_parts(reply) for reply in replies]

    def digests(self) -> list[str]:
        """Return the digests, as `Trace.read` has them."""
        return [_digest_of(*parts) for parts in self._parts]

    def columns(self, table: str) -> list[str]:
        """Return the columns that are read of all rows of a table; empty when there is no such request."""
        return next((operation["columns"] for operation, _rows in self._tables(table)), [])

    def replace(self, table: str, uuids: Collection[str], rows: list[bytes]) -> None:
        """Put `rows` in place of those of a table that have one of these uuids."""
        for _operation, found in self._tables(table):
            found[:] = [row for row in found if row and _identity(row) not in uuids] + rows or [b""]

    def _tables(self, table: str) -> Iterator[tuple[dict, list[bytes]]]:
        """Yield the selects of all rows of a table, not of single ones, with their rows."""
        for (method, parameters), (_around, lists) in zip(self._requests, self._parts, strict=True):
            selects = [one for one in parameters[1:] if one["op"] == "select"] if method == "transact" else []
            for operation, rows in zip(selects, lists, strict=True):
                if operation["table"] == table and all(name == "external_ids" for name, _is, _to in operation["where"]):
                    yield operation, rows


def read_again(remote: str, read: dict, timeout: float) -> Replies | None:
    """Return how a server replies to the requests of `Trace.read` now; None unless it does so as it did then."""
    if not _usable(read):
        return None
    replies = _all_replies(remote, read["requests"], timeout)
    found = Replies(read["requests"], replies) if replies is not None else None
    return found if found is not None and found.digests() == read["replies"] else None


def read_rows(
    remote: str, database: str, table: str, uuids: Collection[str], columns: list[str], timeout: float
) -> list[bytes] | None:  # fmt: skip
    """Return rows of a table as they are in the replies of `read_again`; None when the server does not answer."""
    selects = [
        {"op": "select", "table": table, "where": [["_uuid", "==", ["uuid", one]]], "columns": columns}
        for one in sorted(uuids)
    ]
    replies = _all_replies(remote, [["transact", [database, *selects]]], timeout)
    if replies is None:
        return None
    return [row for rows in _parts(replies[0])[1] for row in rows if row]


def _all_replies(remote: str, requests: list, timeout: float) -> list[bytes] | None:
    with contextlib.closing(_asked(remote, requests, timeout)) as found:
        replies = list(islice(found, len(requests)))
    return replies if len(replies) == len(requests) else None


def _identity(row: bytes) -> str:
    found = _IDENTITY.search(row)
    return found[1].decode() if found else ""


def _usable(read: dict) -> bool:
    requests, replies = read["requests"], read["replies"]
    return bool(requests) and len(requests) == len(replies) and reads_only(requests)


def _asked(remote: str, requests: list, timeout: float) -> Iterator[bytes]:
    """Yield the replies to requests, until one is an error or the server is silent or gone."""
    try:
        stream = open_stream(parse_remotes(remote)[0], timeout, None)
    except Unreachable:
        return
    try:
        text = "".join(
            json.dumps({"method": method, "params": parameters, "id": number}, separators=(",", ":"))
            for number, (method, parameters) in enumerate(requests)
        )
        _send(stream, text.encode(), timeout)
        yield from _replies(stream, timeout)
    except OSError:
        return
    finally:
        stream.close()


def _send(stream: Stream, data: bytes, timeout: float) -> None:
    view = memoryview(data)
    while view:
        if not stream.wait(timeout, write=True)[1]:
            raise TimeoutError
        view = view[stream.send(view) :]


def _replies(stream: Stream, timeout: float) -> Iterator[bytes]:
    """Yield replies in order, until one is an error or the server is silent or gone."""
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
        yield bytes(buffer[:end])
        del buffer[:end]


def _digest(reply: bytes) -> str:
    """Return the digest of a reply, in which rows count in any order.

    The server's own order changes when it writes a row, as ovs-vswitchd lets it do for each interface with packets
    every few seconds.
    """
    return _digest_of(*_parts(reply))


def _digest_of(around: list[bytes], lists: list[list[bytes]]) -> str:
    found = hashlib.sha256(around[0])
    for rows, end in zip(lists, around[1:], strict=True):
        found.update(_ROWS + _NEXT_ROW.join(sorted(rows)) + _ROWS_END + end)
    return found.hexdigest()[:32]


def _parts(reply: bytes) -> tuple[list[bytes], list[list[bytes]]]:
    """Return what is around the lists of rows of a reply, from its result on, and the rows of each list.

    Before the result is the number of the request. Where rows begin and end is a quotation mark, which texts in them
    have escaped only.
    """
    head, *lists = reply[reply.find(_RESULT) :].split(_ROWS)
    around, found = [head], []
    for text in lists:
        rows, _end, rest = text.rpartition(_ROWS_END)
        around.append(rest)
        found.append(rows.removeprefix(b'{"').removesuffix(b"}").split(_NEXT_ROW))
    return around, found
