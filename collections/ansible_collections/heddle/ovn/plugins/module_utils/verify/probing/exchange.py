# SPDX-License-Identifier: Apache-2.0
"""Sends the test packets: UDP datagrams, raw frames that bypass routing, connections and DNS queries to services."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import secrets
import select
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ...netlink import kernel
from ..expectations.expectation import Pair
from ..expectations.external_flow import ENTRANCES, TO_CLUSTER_IP, ExternalFlow, sender_of
from .datagram import SIZE, UNSOLICITED, question, read_answer
from .frame import Interface, interface_of, open_interface, udp_frame
from .listening import Place, allow_descriptors, destination, open_sender, open_socket, present_namespaces
from .probe_scheduling import Reply
from .service_frames import DNS_PORT, ServiceFrames, dns_question

# What a socket of `ServiceFrames` is registered with.
_SERVICE = "service"
# IP and UDP headers of a datagram.
_HEADERS = {4: 28, 6: 48}


@dataclass(slots=True)
class Question:
    """One packet and the expectations that it tests: `rows` are their numbers.

    `wanted` is the expectation that must be answered, None when none must. `answers` maps (responder, network) to the
    seconds it took and the source address that the responder saw; `large` is whether a packet of full size was
    answered.
    """

    row: Pair | ExternalFlow
    rows: list[int] = field(default_factory=list)
    wanted: Pair | ExternalFlow | None = None
    attempts: list[tuple[float, bool]] = field(default_factory=list)
    answers: dict[tuple[str, str], tuple[float, str | None]] = field(default_factory=dict)
    large: bool = False
    unsolicited: bool = False

    @property
    def reached(self) -> bool:
        """Whether the wanted target answered."""
        return self.wanted is not None and (self.wanted.target, self.wanted.network) in self.answers


def questions(rows: list[Pair | ExternalFlow]) -> list[Question]:
    """Return one question for each different packet, in the order of the rows.

    Where networks have equal subnets, one packet to an address tests every target that has it.
    """
    found: dict[tuple, Question] = {}
    merged: list[Question] = []
    for number, row in enumerate(rows):
        key = (row.source, row.family, row.address, row.interface, *_way(row))
        one = found.get(key)
        if one is None or (row.reach and one.wanted is not None):
            one = found[key] = Question(row)
            merged.append(one)
        if row.reach:
            one.wanted, one.row = row, row
        one.rows.append(number)
    return merged


def _way(row: Pair | ExternalFlow) -> tuple:
    return (row.mac, row.protocol, row.port) if isinstance(row, ExternalFlow) else ("", "", 0)


class Exchange:
    """The sockets of a host's questions. Use it as a context manager.

    `problems` has one line for each source that cannot send; `unsent` the numbers of its questions.
    """

    def __init__(self, asked: list[Question], places: dict[str, Place], port: int) -> None:
        self.asked, self.places, self.port = asked, places, port
        self.run = secrets.token_hex(4)
        self.problems: list[str] = []
        self.unsent: set[int] = set()
        self._stack = contextlib.ExitStack()
        self._selector = self._stack.enter_context(selectors.DefaultSelector())
        self._senders: dict[tuple[str, int], socket.socket] = {}
        self._transmit: list[Callable[[bytes], object] | None] = []
        self._interfaces: dict[str, tuple[Interface, socket.socket]] = {}
        self._calls: dict[int, list[socket.socket]] = {}
        self._services = ServiceFrames(self._stack)

    def __enter__(self) -> Exchange:
        allow_descriptors(4 * len(self.asked))
        self._present = present_namespaces(place.namespace for place in self.places.values())
        for number, one in enumerate(self.asked):
            transmit = None
            try:
                self._require(one.row)
                transmit = None if self._is_call(one) else self._transmitter(number, one.row)
            except OSError as error:
                self.unsent.add(number)
                self.problems.append(f"{one.row.source}: {error.strerror or error}")
            self._transmit.append(transmit)
        self.problems = sorted(set(self.problems))
        return self

    def __exit__(self, *_exception) -> None:
        for opened in self._calls.values():
            for one in opened:
                one.close()
        self._stack.close()

    @staticmethod
    def _is_call(one: Question) -> bool:
        return bool(isinstance(one.row, ExternalFlow) and one.row.protocol and not one.row.mac)

    def _require(self, row: Pair | ExternalFlow) -> None:
        namespace = self.places[row.source].namespace
        if namespace not in self._present:
            raise OSError(f"there is no network namespace {namespace}")

    def _sender(self, source: str, version: int) -> socket.socket:
        key = source, version
        if key not in self._senders:
            place = self.places[source]
            try:
                opened = self._stack.enter_context(open_sender(place, version))
            except OSError as error:
                where = place.device or place.namespace
                raise OSError(f"no socket in {where}: {error.strerror or error}") from error
            self._selector.register(opened, selectors.EVENT_READ)
            self._senders[key] = opened
        return self._senders[key]

    def _transmitter(self, number: int, row: Pair | ExternalFlow) -> Callable[[bytes], object]:
        """Return a function that sends a datagram, or a frame where the row asks for one."""
        if isinstance(row, ExternalFlow) and row.mac and row.protocol:
            return self._service_frames(number, row)
        sender, place = self._sender(row.source, row.family), self.places[row.source]
        try:
            if getattr(row, "mac", ""):
                return self._frames(row, sender)
            with kernel.in_netns(place.namespace) if row.interface else contextlib.nullcontext():
                where = destination(row.address, self.port, row.interface)
        except OSError as error:
            name = row.interface or row.address
            raise OSError(f"cannot send to {name}: {error.strerror or error}") from error
        return lambda data: sender.sendto(data, where)

    def _frames(self, row: ExternalFlow, sender: socket.socket) -> Callable[[bytes], object]:
        """Return a function that sends frames; answers arrive at an ordinary socket of their source address."""
        source = row.seen_as
        if sender.getsockname()[1] == 0:
            sender.bind((source, 0))
        interface, opened = self._frame_socket(source)
        ports, macs, addresses = (sender.getsockname()[1], self.port), (interface.mac, row.mac), (source, row.address)
        return lambda data: opened.send(udp_frame(macs, addresses, ports, data))

    def _service_frames(self, number: int, row: ExternalFlow) -> Callable[[bytes], object]:
        reply_socket, transmit = self._services.prepare(number, row, *self._frame_socket(row.seen_as))
        if reply_socket not in (key.fileobj for key in self._selector.get_map().values()):
            self._selector.register(reply_socket, selectors.EVENT_READ, _SERVICE)
        return transmit

    def _frame_socket(self, source: str) -> tuple[Interface, socket.socket]:
        """Return the interface that has an address, and a socket that sends frames out of it."""
        if source not in self._interfaces:
            interface = interface_of(source)
            if interface is None:
                raise OSError(f"no network interface of this host has {source}")
            self._interfaces[source] = interface, self._stack.enter_context(open_interface(interface))
        return self._interfaces[source]

    def now(self) -> float:
        """Return the time."""
        return time.monotonic()

    def ask(self, number: int, *, large: bool = False) -> int:
        """Send a question (once more); return the attempt's number."""
        one, attempt = self.asked[number], len(self.asked[number].attempts)
        one.attempts.append((time.monotonic(), large))
        if self._is_call(one):
            self._call(number, one.row, attempt)
        elif self._transmit[number] is not None:
            size = one.wanted.mtu - _HEADERS[one.row.family] if large and one.wanted else 0
            # A full buffer or no route: it is asked again later.
            with contextlib.suppress(OSError):
                self._transmit[number](question(f"{self.run}/{number}/{attempt}", one.row.source, size))
        return attempt

    def _call(self, number: int, row: ExternalFlow, attempt: int) -> None:
        """Begin a connection or send a DNS query, each time from another port, as resolvers do."""
        kind = socket.SOCK_STREAM if row.protocol == "TCP" else socket.SOCK_DGRAM
        event = selectors.EVENT_WRITE if row.protocol == "TCP" else selectors.EVENT_READ
        with contextlib.suppress(OSError):
            opened = open_socket(self.places[row.source], row.family, kind)
            self._calls.setdefault(number, []).append(opened)
            with contextlib.suppress(BlockingIOError):
                opened.connect((row.address, row.port))
            if row.protocol == "UDP":
                data = self._question(number, attempt) if _asks_workload(row) else dns_question(number & 0xFFFF)
                opened.send(data)
            self._selector.register(opened, event, (number, attempt))

    def _question(self, number: int, attempt: int) -> bytes:
        """Return a question to workloads that answer for a service."""
        return question(f"{self.run}/{number}/{attempt}", sender_of(self.asked[number].row))

    def _has_connected(self, opened: socket.socket, events: int, number: int, attempt: int) -> bool:
        """Send the question over a connection that is open now; return whether its answer has to be waited for."""
        row = self.asked[number].row
        if events != selectors.EVENT_WRITE or row.refused or not _asks_workload(row):
            return False
        try:
            opened.send(self._question(number, attempt))
        except OSError:
            return False
        self._selector.modify(opened, selectors.EVENT_READ, (number, attempt))
        return True

    def receive(self, until: float) -> list[Reply]:
        """Wait for answers until `until` at most; return those that came from the target asked."""
        replies: list[Reply] = []
        for key, _events in self._selector.select(max(0.0, until - time.monotonic())):
            if key.data is None:
                self._read(key.fileobj, replies)
            elif key.data == _SERVICE:
                for number in self._services.answered(key.fileobj):
                    one = self.asked[number]
                    self._note(number, len(one.attempts) - 1, (one.row.target, one.row.network), None, replies)
            elif not self._has_connected(key.fileobj, key.events, *key.data):
                self._called(key.fileobj, *key.data, replies)
        return replies

    def _called(self, opened: socket.socket, number: int, attempt: int, replies: list[Reply]) -> None:
        one, asker = self.asked[number], None
        self._selector.unregister(opened)
        if one.row.refused:
            is_answered = _is_refused(opened)
        elif _asks_workload(one.row):
            is_answered, asker = _answered_by_endpoint(opened, one.row)
        else:
            is_answered = _answered(opened, one.row, number & 0xFFFF)
        if is_answered:
            self._note(number, attempt, (one.row.target, one.row.network), asker, replies)
        opened.close()

    def _read(self, sender: socket.socket, replies: list[Reply]) -> None:
        while True:
            try:
                data, (answerer, *_port) = sender.recvfrom(SIZE)
            except OSError:
                return
            answer = read_answer(data)
            number, attempt = self._token(answer["answer"]) if answer else (None, 0)
            if (
                number is None
                or self._senders.get((self.asked[number].row.source, self.asked[number].row.family)) is not sender
            ):
                continue
            if answer["workload"] == UNSOLICITED:
                self.asked[number].unsolicited = True
            elif self.asked[number].wanted is None or _same(answerer, self.asked[number].row.address):
                self._note(number, attempt, (answer["workload"], answer["network"]), answer["asker"], replies)

    def _token(self, text: str) -> tuple[int | None, int]:
        run, *rest = text.split("/")
        if run != self.run or len(rest) != 2 or not all(part.isdecimal() for part in rest):
            return None, 0
        number, attempt = map(int, rest)
        known = number < len(self.asked) and attempt < len(self.asked[number].attempts)
        return (number, attempt) if known else (None, 0)

    def _note(self, number: int, attempt: int, giver: tuple[str, str], asker: str | None, replies: list[Reply]) -> None:
        one = self.asked[number]
        sent, large = one.attempts[attempt]
        took = time.monotonic() - sent
        one.answers.setdefault(giver, (took, asker))
        if one.wanted is not None and giver == (one.wanted.target, one.wanted.network):
            one.large = one.large or large
            replies.append(Reply(number, attempt, took, large))


def _same(answerer: str, address: str) -> bool:
    """Return whether an answer is from the address that was asked; a connected socket gets no other."""
    return ipaddress.ip_address(answerer.partition("%")[0]) == ipaddress.ip_address(address.partition("%")[0])


def _asks_workload(row: ExternalFlow) -> bool:
    """Return whether a question is to workloads that answer verify, not a connection only or a DNS query.

    Where none must answer, an open connection shows enough.
    """
    if row.protocol == "TCP":
        return row.named and row.reach
    return row.kind in (*ENTRANCES, TO_CLUSTER_IP)


def _is_refused(opened: socket.socket) -> bool:
    return opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


def _answered_by_endpoint(opened: socket.socket, row: ExternalFlow) -> tuple[bool, str | None]:
    """Return whether a workload answered that may, or any where none must, and the source address that it saw."""
    if (row.denied or row.kind == TO_CLUSTER_IP) and not row.reach and _is_refused(opened):
        return True, None
    try:
        answer = read_answer(opened.recv(SIZE))
    except OSError:
        return False, None
    if not answer or (row.reach and answer["workload"] not in row.responders):
        return False, None
    return True, answer["asker"]


def _answered(opened: socket.socket, row: ExternalFlow, token: int) -> bool:
    try:
        # A host refuses by itself what the source ranges of a Service keep out, so that shows no packet beyond it.
        counts = row.denied or row.kind == TO_CLUSTER_IP or (row.kind in ENTRANCES and row.reach)
        if counts and _is_refused(opened):
            return True
        if row.protocol == "TCP":
            opened.getpeername()
            return not opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) and bool(
                select.select([], [opened], [], 0)[1]
            )
        data = opened.recv(512)
    except OSError:
        return False
    return data[:2] == struct.pack("!H", token) or row.port != DNS_PORT
