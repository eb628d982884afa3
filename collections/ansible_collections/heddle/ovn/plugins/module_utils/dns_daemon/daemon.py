# SPDX-License-Identifier: Apache-2.0
"""The tasks of the daemon: one for each name and family, and one that follows the database."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Awaitable, Callable

from ..common.files.daemon_report import Report, read_report
from ..common.processes.task_end import end
from ..ovsdb.protocol.errors import OvsdbError, Unreachable
from .address_sets import AddressSet, AddressSets
from .lookup import Answer, LookupFailed, lookup
from .resolved_name import ResolvedName

_LOOK_SECONDS = 0.5
_RECONNECT_SECONDS = 2.0
# Questions under way at once: more wait for their turn.
_MOST_QUESTIONS = 64


class Daemon:
    """`is_wanted` returns whether the plan has names; `remote` is that of this host's Northbound database.

    `ask` returns the addresses of a name, `say` takes lines for the log.
    """

    def __init__(
        self,
        is_wanted: Callable[[], bool],
        remote: str,
        report: str,
        say: Callable[[str], None],
        ask: Callable[[str, int], Awaitable[Answer]] = lookup,
    ) -> None:
        self._is_wanted, self._remote, self._path = is_wanted, remote, report
        self._say, self._ask, self._file = say, ask, Report(report, say)
        self._names: dict[str, ResolvedName] = {}
        self._tasks: dict[tuple[str, int], asyncio.Task] = {}
        self._sets: list[AddressSet] = []
        self._reported: dict | None = None
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Run until no firewall has a rule with a name; then there is no report either."""
        known = read_report(self._path)
        self._turns = asyncio.Semaphore(_MOST_QUESTIONS)
        try:
            while self._is_wanted():
                try:
                    await self._connected(known)
                except (OvsdbError, Unreachable) as error:
                    self._say(f"the Northbound database: {error}; trying again")
                    await asyncio.sleep(_RECONNECT_SECONDS)
        finally:
            await end(self._tasks.values())
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    async def _connected(self, known: dict[str, dict]) -> None:
        with contextlib.closing(AddressSets(self._remote)) as database:
            loop = asyncio.get_running_loop()
            descriptor = database.fileno()
            loop.add_reader(descriptor, self._wake.set)
            try:
                self._follow(database.read(), known)
                while self._is_wanted():
                    if database.changed():
                        self._follow(database.read(), known)
                    now = time.monotonic()
                    changes = {one: found for one in self._sets if (found := self._wanted(one, now)) != one.addresses}
                    if changes:
                        database.write(changes)
                        self._follow(database.read(), known)
                    self._report(now)
                    self._wake.clear()
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), _LOOK_SECONDS)
            finally:
                loop.remove_reader(descriptor)

    def _follow(self, sets: list[AddressSet], known: dict[str, dict]) -> None:
        """Begin and end questions; `known` is the report of an earlier run of the daemon.

        A name begins with the addresses in that report and in its sets: without them, its rules would decide for no
        packet until the first answers, after each start of the host or of the daemon.
        """
        self._sets = sets
        wanted = {(one.name, one.version) for one in sets}
        for name, version in self._tasks.keys() - wanted:
            self._tasks.pop((name, version)).cancel()
            self._names[name].ended(version)
        names = {name for name, _version in wanted}
        for name in self._names.keys() - names:
            del self._names[name]
        for name in names - self._names.keys():
            self._names[name] = ResolvedName()
            before = {address for one in sets if one.name == name for address in one.addresses}
            before |= {*known.pop(name, {}).get("addresses", [])}
            here = [address for address in before if (name, 6 if ":" in address else 4) in wanted]
            self._names[name].restored(here, time.monotonic())
        for key in wanted - self._tasks.keys():
            self._tasks[key] = asyncio.ensure_future(self._repeat(*key, self._names[key[0]]))

    async def _repeat(self, name: str, version: int, state: ResolvedName) -> None:
        while True:
            async with self._turns:
                answer = await self._asked(name, version)
            if self._tasks.get((name, version)) is not asyncio.current_task():
                # The cancellation was lost (common/processes/task_end.py).
                return
            pause = self._learned(name, version, state, answer)
            self._wake.set()
            # Names with the same TTL are not asked for all at once.
            await asyncio.sleep(pause * random.uniform(0.9, 1.0))

    async def _asked(self, name: str, version: int) -> Answer | LookupFailed:
        try:
            return await self._ask(name, version)
        except LookupFailed as error:
            return error

    def _learned(self, name: str, version: int, state: ResolvedName, answer: Answer | LookupFailed) -> float:
        """Take an answer or a failure; return the seconds until the next question."""
        if not isinstance(answer, LookupFailed):
            return state.answered(version, answer.addresses, answer.seconds, time.monotonic())
        before = state.failure
        pause = state.failed(version, str(answer), time.monotonic())
        if state.failure != before:
            self._say(f"{name}: {state.failure}")
        return pause

    def _wanted(self, one: AddressSet, now: float) -> frozenset[str]:
        found = self._names[one.name].addresses(now)
        return frozenset(address for address in found if (":" in address) == (one.version == 6))

    def _report(self, now: float) -> None:
        """Write the report when it has changed; the address sets have what it says by then."""
        families: dict[str, set[int]] = {}
        for one in self._sets:
            families.setdefault(one.name, set()).add(one.version)
        report = {
            name: {"addresses": sorted(state.addresses(now)), "problem": state.failure}
            for name, state in sorted(self._names.items())
            if state.is_known(families.get(name, frozenset()))
        }
        if report != self._reported or not os.path.exists(self._path):
            self._reported = report if self._file.write(report) else None
