# SPDX-License-Identifier: Apache-2.0
"""The engine for BIRD: one configuration file of Heddle's own, and the line in bird.conf that includes it.

Everything else in bird.conf is the user's. Own are the file and protocols and tables whose names begin with `heddle`;
the configuration that BIRD runs has its digest as a description, so an interrupted run is noticed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..common.atomic_file import replace_file
from ..common.change import Change, Outcome
from ..common.polling import attempts
from ..types.bird_configuration import Configuration
from .control import SOCKET, BirdError, Control, NotRunning

SUBSTRATE = "BIRD"
_TIMEOUT = 30.0
OWN = "heddle*"
# A pattern: BIRD would refuse to start without a file that is named exactly.
_INCLUDE = 'include "{}/heddle*.conf";'
_COMMENT = "# Heddle's own tables and protocols."


@dataclass(frozen=True)
class Places:
    """Where BIRD's files and its control socket are."""

    directory: str = "/etc/bird"
    socket: str = SOCKET

    @property
    def main(self) -> str:
        """The configuration that BIRD reads."""
        return f"{self.directory}/bird.conf"

    @property
    def own(self) -> str:
        """Heddle's file."""
        return f"{self.directory}/heddle.conf"

    @property
    def include(self) -> str:
        """The line of bird.conf that has BIRD read Heddle's file."""
        return _INCLUDE.format(self.directory)


def reconcile_bird(wanted: Configuration | None, *, write: bool, places: Places | None = None) -> Outcome:
    """Bring BIRD to the configuration; None removes Heddle's part.

    A configuration that BIRD does not accept is a BirdError, and the files are as before. Without a BIRD that runs, its
    files are written, which it reads when it starts, and a note says so.
    """
    places = places or Places()
    own, main = _read(places.own), _read(places.main)
    if wanted is None and own is None:
        return Outcome()
    if wanted is not None and main is None:
        change = _change("create", "configuration", places.own, None, wanted.text)
        if write:
            raise BirdError(f"{places.main} is missing: BIRD is not installed; run heddle.ovn.networks")
        return Outcome((change,))
    lines = (main or "").splitlines()
    included = places.include in lines
    if wanted is None:
        changed = "\n".join(line for line in lines if line not in (places.include, _COMMENT)) + "\n"
        text = None
    else:
        changed = main if included else f"{main.rstrip(chr(10))}\n\n{_COMMENT}\n{places.include}\n"
        text = wanted.text
    changes = []
    if own != text:
        action = "delete" if text is None else "create" if own is None else "update"
        changes.append(_change(action, "configuration", places.own, own, text))
    if main is not None and changed != main:
        sides = ({"include": included}, {"include": wanted is not None})
        changes.append(Change(SUBSTRATE, "update", "include", places.main, "", *sides))
    try:
        with Control(places.socket) as control:
            running = _running(control)
            if not changes and wanted is not None and wanted.mark not in running:
                sides = ({"description": ", ".join(running)}, {"description": wanted.mark})
                changes.append(Change(SUBSTRATE, "update", "running configuration", places.main, "", *sides))
            if changes and write:
                _write(places, text, changed if main is not None else None)
                refusal = _configure(control, wanted)
                if refusal:
                    _write(places, own, main)
                    raise BirdError(f"BIRD does not accept its configuration, which was restored: {refusal}")
            # Sessions take some seconds after a change, and what was written is not looked at again.
            quiet = write or changes or wanted is None
            return Outcome(tuple(changes), notes=() if quiet else tuple(_silent(control)))
    except NotRunning as error:
        if changes and write:
            _write(places, text, changed if main is not None else None)
        return Outcome(tuple(changes), notes=(str(error),) if wanted is not None else ())


def _running(control: Control) -> list[str]:
    return sorted({text for text in control.descriptions(OWN) if text.startswith("heddle ")})


def _configure(control: Control, wanted: Configuration | None) -> str:
    """Make BIRD read its files and wait until it runs them; return its reason for not accepting them, else ""."""
    try:
        control.command("configure check")
        control.command("configure")
        _wait(control, wanted)
    except NotRunning:
        raise
    except BirdError as refused:
        return str(refused)
    return ""


def _wait(control: Control, wanted: Configuration | None) -> None:
    """Wait until BIRD runs the configuration: it answers before protocols that go have ended."""
    for _attempt in attempts(_TIMEOUT):
        running = _running(control)
        if (wanted.mark in running) if wanted is not None else not running:
            return
    raise NotRunning(f"BIRD did not apply its configuration within {_TIMEOUT:g} s; see birdc show status")


def _silent(control: Control) -> list[str]:
    """Return a note for each neighbour whose session is not established."""
    return [
        f"BIRD: {session.name} is {session.state}{f' ({session.information})' if session.information else ''}"
        for session in control.sessions(OWN)
        if session.kind == "BGP" and session.information != "Established"
    ]


def _change(action: str, kind: str, name: str, before: str | None, after: str | None) -> Change:
    """Return the change of a file; of one that stays, only the lines that differ."""
    old, new = ((text or "").splitlines() for text in (before, after))
    if action == "update":
        kept = {*old} & {*new}
        old, new = ([line for line in lines if line not in kept] for lines in (old, new))
    sides = ({"lines": lines} if text is not None else {} for lines, text in ((old, before), (new, after)))
    return Change(SUBSTRATE, action, kind, name, "", *sides)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as text:
            return text.read()
    except FileNotFoundError:
        return None


def _write(places: Places, own: str | None, main: str | None) -> None:
    """Write both files, Heddle's first, since the other one may refer to it."""
    if own is not None:
        replace_file(places.own, own, mode=0o644, single_writer=True)
    if main is not None and main != _read(places.main):
        replace_file(places.main, main, single_writer=True)
    if own is None and os.path.exists(places.own):
        os.unlink(places.own)
