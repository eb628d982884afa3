# SPDX-License-Identifier: Apache-2.0
"""Ask addresses from each of a host's workloads and from the host, all at once, and note who answers.

What must reach and did is asked once more, with packets as large as its network allows.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..apply import kernel
from .crossing import Crossing
from .datagram import SIZE, STRANGER, question, read_answer
from .expectation import Pair
from .frame import card_of, open_card, udp_frame
from .listening import Place, allow_descriptors, destination, open_sender, present_namespaces
from .pace import Pace, ask_once, ask_until_answered

INTERVAL = 0.5
# Questions a second at most. Each is a new flow, and a switch that has to decide on hundreds at once drops packets of
# others.
RATE = 800
# Silence is believed after one question more than the slowest of those needed who must answer, and after so many
# seconds or twice what the slowest answer took.
FEWEST_ROUNDS, MOST_ROUNDS = 2, 4
FEWEST_SECONDS = 2.0
# IP and UDP headers of a datagram.
_HEADERS = {4: 28, 6: 48}


@dataclass(slots=True)
class _Probe:
    pair: Pair | Crossing
    sender: socket.socket
    transmit: Callable[[bytes], object]
    size: int = 0
    sent: list[float] = field(default_factory=list)
    answered_by: str | None = None
    answered_on: str | None = None
    milliseconds: float | None = None
    asker: str | None = None
    stranger: bool = False
    large: bool = False

    @property
    def reached(self) -> bool:
        return (self.answered_by, self.answered_on) == (self.pair.target, self.pair.network)


def probe(
    pairs: list[Pair | Crossing], places: dict[str, Place], port: int, timeout: float, rate: int = RATE
) -> tuple[list[dict], list[str]]:
    """Return what was seen of each pair, and one line for each source that could not send.

    `places` holds where each source's sockets are; `timeout` is for how many seconds nobody answers before the search
    for those who must is given up, `rate` in questions a second.
    """
    with contextlib.ExitStack() as stack:
        senders, problems = _senders(pairs, places, stack)
        cards = _Cards(stack, port)
        probes = []
        for pair in (one for one in pairs if (one.source, one.family) in senders):
            sender = senders[pair.source, pair.family]
            try:
                transmit = cards.transmit(pair, sender) or _to(sender, _destination(pair, places[pair.source], port))
            except OSError as error:
                name = pair.interface or pair.address
                problems.append(f"{pair.source}: cannot send to {name}: {error.strerror or error}")
            else:
                probes.append(_Probe(pair, sender, transmit))
        selector = stack.enter_context(selectors.DefaultSelector())
        for sender in senders.values():
            selector.register(sender, selectors.EVENT_READ)
        _converse(probes, selector, timeout, rate)
        large = [one for one in probes if one.pair.reach and one.pair.mtu and one.reached]
        again = [_Probe(one.pair, one.sender, one.transmit, one.pair.mtu - _HEADERS[one.pair.family]) for one in large]
        _converse(again, selector, timeout, rate)
        for one, other in zip(large, again, strict=True):
            one.large = other.reached
    return [_seen(found) for found in probes], sorted(set(problems))


def _to(sender: socket.socket, where: tuple) -> Callable[[bytes], object]:
    return lambda data: sender.sendto(data, where)


def _destination(pair: Pair | Crossing, place: Place, port: int) -> tuple:
    with kernel.inside(place.namespace) if pair.interface else contextlib.nullcontext():
        return destination(pair.address, port, pair.interface)


class _Cards:
    """Sends frames past the routes of this host; answers to them come to an ordinary socket."""

    def __init__(self, stack: contextlib.ExitStack, port: int) -> None:
        self.stack, self.port = stack, port
        self.opened: dict[str, tuple] = {}

    def transmit(self, pair: Pair | Crossing, sender: socket.socket) -> Callable[[bytes], object] | None:
        """Return what sends a frame if the pair asks for one. OSError: no card has the sender's address."""
        if not getattr(pair, "mac", ""):
            return None
        source = pair.seen_as
        if source not in self.opened:
            card = card_of(source)
            if card is None:
                raise OSError(f"no network card of this host has {source}")
            sender.bind((source, 0))
            self.opened[source] = card, self.stack.enter_context(open_card(card))
        card, opened = self.opened[source]
        ports = sender.getsockname()[1], self.port
        macs, addresses = (card.mac, pair.mac), (source, pair.address)
        return lambda data: opened.send(udp_frame(macs, addresses, ports, data))


def _senders(
    pairs: list[Pair | Crossing], places: dict[str, Place], stack: contextlib.ExitStack
) -> tuple[dict, list[str]]:
    wanted = sorted({(pair.source, pair.family) for pair in pairs})
    allow_descriptors(len(wanted))
    present = present_namespaces(place.namespace for place in places.values())
    senders, problems = {}, []
    for source, number in wanted:
        place = places[source]
        if place.namespace not in present:
            problems.append(f"{source}: there is no network namespace {place.namespace}")
            continue
        try:
            senders[source, number] = stack.enter_context(open_sender(place, number))
        except OSError as error:
            problems.append(f"{source}: no socket in {place.device or place.namespace}: {error.strerror or error}")
    return senders, problems


def _converse(probes: list[_Probe], selector: selectors.BaseSelector, timeout: float, rate: int) -> None:
    """Ask those who must answer until they have, then the others, whose silence is believed after a while."""
    conversation = _Conversation(probes, selector)
    pace = Pace(rate)
    required = [number for number, one in enumerate(probes) if one.pair.reach]
    ask_until_answered(required, conversation, pace, timeout)
    silent = [number for number, one in enumerate(probes) if not one.pair.reach]
    if not silent:
        return
    began = time.monotonic()
    asked = [len(probes[number].sent) for number in required if probes[number].reached]
    for _round in range(min(MOST_ROUNDS, max(FEWEST_ROUNDS, 1 + max(asked, default=MOST_ROUNDS)))):
        ask_once([number for number in silent if not probes[number].reached], conversation, pace.unanswered_rate)
        conversation.listen(time.monotonic() + INTERVAL)
    slowest = max((one.milliseconds or 0 for one in probes), default=0) / 1000
    conversation.listen(min(began + max(FEWEST_SECONDS, 2 * slowest), began + timeout))


class _Conversation:
    """Questions and answers of one run, by the probe's number."""

    def __init__(self, probes: list[_Probe], selector: selectors.BaseSelector) -> None:
        self.probes, self.selector = probes, selector
        self.run = secrets.token_hex(4)

    def now(self) -> float:
        return time.monotonic()

    def ask(self, number: int) -> None:
        one = self.probes[number]
        _ask(one, f"{self.run}/{number}/{len(one.sent)}")

    def hear(self, until: float) -> list[tuple[int, float]]:
        heard = []
        for key, _events in self.selector.select(max(0.0, until - time.monotonic())):
            heard += _hear(key.fileobj, self.run, self.probes)
        return heard

    def listen(self, until: float) -> None:
        """Hear answers until then."""
        while time.monotonic() < until:
            self.hear(until)


def _ask(one: _Probe, token: str) -> None:
    one.sent.append(time.monotonic())
    # A full buffer or no route: it is asked again in the next round.
    with contextlib.suppress(OSError):
        one.transmit(question(token, one.pair.source, one.size))


def _hear(sender: socket.socket, run: str, probes: list[_Probe]) -> list[tuple[int, float]]:
    """Read what has come; returns the probes that have got their answer now, and after how many seconds."""
    heard = []
    while True:
        try:
            data, _address = sender.recvfrom(SIZE)
        except OSError:
            return heard
        said = read_answer(data)
        if said is None:
            continue
        whose, _slash, rest = said["answer"].partition("/")
        number, _slash, asked = rest.partition("/")
        if whose != run or not number.isdecimal() or not asked.isdecimal() or int(number) >= len(probes):
            continue
        one = probes[int(number)]
        if one.sender is not sender or int(asked) >= len(one.sent):
            continue
        if said["workload"] == STRANGER:
            one.stranger = True
        elif not one.reached:
            one.answered_by, one.answered_on = said["workload"], said["network"]
            one.asker = said["asker"]
            took = time.monotonic() - one.sent[int(asked)]
            one.milliseconds = round(took * 1000, 2)
            if one.reached:
                heard.append((int(number), took))


def _seen(one: _Probe) -> dict:
    pair = one.pair
    return {
        "source": pair.source,
        "target": pair.target,
        "network": pair.network,
        "family": pair.family,
        "address": pair.address,
        "answered_by": one.answered_by,
        "answered_on": one.answered_on,
        "milliseconds": one.milliseconds,
        "asker": one.asker,
        "stranger": one.stranger,
        "large": one.large,
    }
