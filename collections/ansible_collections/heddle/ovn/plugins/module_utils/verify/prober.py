# SPDX-License-Identifier: Apache-2.0
"""Ask every address of every workload from each of a host's own, all at once, and note who answers."""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import time
from dataclasses import dataclass, field

from ..apply import kernel
from .datagram import SIZE, question, read_answer
from .expectation import Pair
from .listening import allow_descriptors, destination, open_sender

INTERVAL = 0.5
# Silence is believed after so many questions and so many seconds, and twice what the slowest answer took.
FEWEST_ROUNDS = 4
FEWEST_SECONDS = 2.0


@dataclass(slots=True)
class _Probe:
    pair: Pair
    sender: socket.socket
    destination: tuple
    sent: list[float] = field(default_factory=list)
    answered_by: str | None = None
    answered_on: str | None = None
    milliseconds: float | None = None

    @property
    def reached(self) -> bool:
        return (self.answered_by, self.answered_on) == (self.pair.target, self.pair.network)


def probe(pairs: list[Pair], namespaces: dict[str, str], port: int, timeout: float) -> tuple[list[dict], list[str]]:
    """Return what was seen of each pair, and one line for each source that could not send.

    `namespaces` holds the network namespace of each source; `timeout` is in seconds.
    """
    with contextlib.ExitStack() as stack:
        senders, problems = _senders(pairs, namespaces, stack)
        probes = []
        for pair in (one for one in pairs if (one.source, one.family) in senders):
            try:
                where = _destination(pair, namespaces[pair.source], port)
            except OSError:
                problems.append(f"{pair.source}: there is no interface {pair.interface}")
            else:
                probes.append(_Probe(pair, senders[pair.source, pair.family], where))
        selector = stack.enter_context(selectors.DefaultSelector())
        for sender in senders.values():
            selector.register(sender, selectors.EVENT_READ)
        _converse(probes, selector, timeout)
    return [_seen(found) for found in probes], sorted(set(problems))


def _destination(pair: Pair, namespace: str, port: int) -> tuple:
    with kernel.inside(namespace) if pair.interface else contextlib.nullcontext():
        return destination(pair.address, port, pair.interface)


def _senders(pairs: list[Pair], namespaces: dict[str, str], stack: contextlib.ExitStack) -> tuple[dict, list[str]]:
    wanted = sorted({(pair.source, pair.family) for pair in pairs})
    allow_descriptors(len(wanted))
    present = set(kernel.namespaces())
    senders, problems = {}, []
    for source, number in wanted:
        namespace = namespaces.get(source)
        if namespace in present:
            senders[source, number] = stack.enter_context(open_sender(namespace, number))
        else:
            problems.append(f"{source}: there is no network namespace {namespace}")
    return senders, problems


def _converse(probes: list[_Probe], selector: selectors.BaseSelector, timeout: float) -> None:
    run = secrets.token_hex(4)
    began = time.monotonic()
    rounds = 0
    while True:
        now = time.monotonic()
        if now - began >= timeout or _settled(probes, rounds, now - began):
            return
        for number, one in enumerate(probes):
            if not one.reached:
                _ask(one, f"{run}/{number}/{rounds}")
        rounds += 1
        until = min(began + rounds * INTERVAL, began + timeout)
        while (left := until - time.monotonic()) > 0:
            for key, _events in selector.select(left):
                _hear(key.fileobj, run, probes)


def _ask(one: _Probe, token: str) -> None:
    one.sent.append(time.monotonic())
    # A full buffer or no route: it is asked again in the next round.
    with contextlib.suppress(OSError):
        one.sender.sendto(question(token, one.pair.source), one.destination)


def _hear(sender: socket.socket, run: str, probes: list[_Probe]) -> None:
    while True:
        try:
            data, _address = sender.recvfrom(SIZE)
        except OSError:
            return
        said = read_answer(data)
        if said is None:
            continue
        whose, _slash, rest = said["answer"].partition("/")
        number, _slash, asked = rest.partition("/")
        if whose != run or not number.isdecimal() or not asked.isdecimal() or int(number) >= len(probes):
            continue
        one = probes[int(number)]
        if one.sender is sender and int(asked) < len(one.sent) and not one.reached:
            one.answered_by, one.answered_on = said["workload"], said["network"]
            one.milliseconds = round((time.monotonic() - one.sent[int(asked)]) * 1000, 2)


def _settled(probes: list[_Probe], rounds: int, seconds: float) -> bool:
    if rounds < FEWEST_ROUNDS or any(one.pair.reach and not one.reached for one in probes):
        return False
    slowest = max((one.milliseconds or 0 for one in probes), default=0) / 1000
    return seconds >= max(FEWEST_SECONDS, 2 * slowest)


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
    }
