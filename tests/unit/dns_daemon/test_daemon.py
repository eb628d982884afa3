# SPDX-License-Identifier: Apache-2.0
"""The daemon with a database in memory and answers of the test's own."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon import daemon
from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon.address_sets import AddressSet
from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon.lookup import Answer, LookupFailed

NAME, OTHER = "www.example.com", "ftp.example.com"


class Scene:
    """`sets` are those of the database, `history` the addresses of each write, `late` comes with the next write.

    `changed`: others have changed the sets since they were read.
    """

    def __init__(self, monkeypatch, folder: Path) -> None:
        self.sets: dict[str, AddressSet] = {}
        self.history: list[dict[str, list[str]]] = []
        self.late: list[AddressSet] = []
        self.said: list[str] = []
        self.path = folder / "run" / "dns-names.json"
        self.path.parent.mkdir()
        self.answers: dict[tuple[str, int], Answer | None] = {}
        self.release = asyncio.Event()
        self.over = self.changed = False
        scene = self

        class Database:
            def __init__(self, _remote) -> None:
                self.pipe = os.pipe()

            def fileno(self) -> int:
                return self.pipe[0]

            def changed(self) -> bool:
                changed, scene.changed = scene.changed, False
                return changed

            def read(self) -> list[AddressSet]:
                return [*scene.sets.values()]

            def write(self, changes: dict[AddressSet, frozenset[str]]) -> None:
                scene.history.append({one.name: sorted(addresses) for one, addresses in changes.items()})
                for one, addresses in changes.items():
                    scene.put(one.name, one.version, *addresses)
                for one in scene.late:
                    scene.sets[one.uuid] = one
                scene.late.clear()

            def close(self) -> None:
                for one in self.pipe:
                    os.close(one)

        monkeypatch.setattr(daemon, "AddressSets", Database)
        monkeypatch.setattr(daemon, "_LOOK_SECONDS", 0.01)

    def put(self, name: str, version: int, *addresses: str) -> AddressSet:
        made = AddressSet(f"{name}/{version}", name, version, frozenset(addresses))
        self.sets[made.uuid] = made
        return made

    async def ask(self, name: str, version: int) -> Answer:
        await self.release.wait()
        answer = self.answers.get((name, version))
        if answer is None:
            raise LookupFailed("SERVFAIL")
        return answer

    def run(self, scenario) -> None:
        async def both() -> None:
            made = daemon.Daemon(lambda: not self.over, "", str(self.path), self.said.append, self.ask)
            running = asyncio.ensure_future(made.run())
            playing = asyncio.ensure_future(scenario())
            await asyncio.wait([running, playing], timeout=600, return_when=asyncio.FIRST_COMPLETED)
            # A daemon that has ended shows its error here.
            assert not running.done() or running.result()
            await playing
            self.over = True
            await running

        asyncio.run(both())

    async def until(self, condition) -> None:
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def scene(monkeypatch, tmp_path: Path) -> Scene:
    return Scene(monkeypatch, tmp_path)


def test_sets_keep_their_addresses_until_the_first_answer(scene) -> None:
    """As after a start of the host, when there is no report of before: deny rules must not open meanwhile."""
    scene.put(NAME, 4, "192.0.2.1")
    scene.put(NAME, 6, "2001:db8::1")
    scene.answers[NAME, 4] = Answer(frozenset({"192.0.2.2"}), 300)

    async def scenario() -> None:
        await scene.until(scene.path.exists)
        assert json.loads(scene.path.read_text())[NAME]["addresses"] == ["192.0.2.1", "2001:db8::1"]
        assert scene.history == []
        scene.release.set()
        await scene.until(lambda: scene.history)

    scene.run(scenario)
    # That of before counts for a moment longer; the lookup of the other family has failed.
    assert scene.history == [{NAME: ["192.0.2.1", "192.0.2.2"]}]


def test_a_name_is_reported_when_its_sets_have_the_first_answers(scene) -> None:
    """What waits for the report must not take a name that was not asked for yet for one without addresses."""
    scene.put(NAME, 4)
    scene.put(NAME, 6)
    scene.put(OTHER, 4)
    scene.answers[NAME, 4] = scene.answers[OTHER, 4] = Answer(frozenset({"192.0.2.2"}), 300)

    async def scenario() -> None:
        await scene.until(scene.path.exists)
        assert json.loads(scene.path.read_text()) == {}
        scene.release.set()
        await scene.until(lambda: len(json.loads(scene.path.read_text())) == 2)
        assert scene.sets[f"{NAME}/4"].addresses == {"192.0.2.2"}

    scene.run(scenario)


def test_addresses_are_written_without_a_report(scene) -> None:
    """As where /run is full."""
    scene.put(NAME, 4)
    scene.answers[NAME, 4] = Answer(frozenset({"192.0.2.2"}), 300)
    scene.path.parent.rmdir()
    scene.release.set()

    async def scenario() -> None:
        await scene.until(lambda: scene.history and scene.said)
        await asyncio.sleep(0.1)
        assert len(scene.said) == 1
        scene.path.parent.mkdir()
        await scene.until(scene.path.exists)

    scene.run(scenario)
    assert scene.history == [{NAME: ["192.0.2.2"]}]


def test_a_set_that_appears_with_a_write_is_followed(scene) -> None:
    scene.put(NAME, 4)
    scene.answers[NAME, 4] = Answer(frozenset({"192.0.2.2"}), 300)
    scene.answers[OTHER, 4] = Answer(frozenset({"192.0.2.3"}), 300)
    scene.late.append(AddressSet("late", OTHER, 4, frozenset()))
    scene.release.set()

    async def scenario() -> None:
        await scene.until(lambda: len(scene.history) == 2)

    scene.run(scenario)
    assert scene.history == [{NAME: ["192.0.2.2"]}, {OTHER: ["192.0.2.3"]}]


def test_a_lost_cancellation_of_a_question(scene, monkeypatch) -> None:
    """dnspython's `asyncio.wait_for` loses it before Python 3.12 when the answer comes in the same moment."""
    scene.put(NAME, 4)
    scene.put(OTHER, 4)
    asked: list[str] = []

    async def ask(name: str, _version: int) -> Answer:
        asked.append(name)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return Answer(frozenset({"192.0.2.2"}), 300)
        raise AssertionError

    monkeypatch.setattr(scene, "ask", ask)

    async def scenario() -> None:
        await scene.until(lambda: len(asked) == 2)
        del scene.sets[f"{OTHER}/4"]
        scene.put("a third", 4)
        scene.changed = True
        await scene.until(lambda: len(asked) == 3)

    # It ends, and what a question brings that is not wanted any more is not learned.
    scene.run(scenario)
    assert sorted(asked) == sorted([NAME, OTHER, "a third"])
    assert scene.history == []
