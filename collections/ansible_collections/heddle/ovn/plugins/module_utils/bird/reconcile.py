# SPDX-License-Identifier: Apache-2.0
"""The engine for BIRD: one configuration file of Heddle's own, and the line in bird.conf that includes it.

Everything else in bird.conf is the user's. Own are the file and protocols and tables whose names begin with `heddle`;
the configuration that BIRD runs has its digest as a description, so an interrupted run is noticed. The role bird may
have made a second file of a user's template: its digest is part of it, so that BIRD reads it whenever it has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from dataclasses import dataclass

from ..common.atomic_file import replace_file
from ..common.change import Change, Outcome
from ..common.polling import attempts
from ..types.bird_configuration import MARK, Configuration
from .control import SOCKET, BirdError, Control, NotRunning

SUBSTRATE = "BIRD"
_TIMEOUT = 30.0
OWN = "heddle*"
# A pattern: BIRD would refuse to start without a file that is named exactly.
_INCLUDE = 'include "{}/heddle*.conf";'
_OWN_BFD = re.compile(r"^\s*protocol\s+bfd\b", re.MULTILINE)
# Comments of a user's may have any bytes, which stay.
_AS_IT_IS = "surrogateescape"
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
    def templated(self) -> str:
        """The file that the role bird makes of a user's template; read after Heddle's, in the order of the names."""
        return f"{self.directory}/heddle_template.conf"

    @property
    def include(self) -> str:
        """The line of bird.conf that has BIRD read Heddle's file."""
        return _INCLUDE.format(self.directory)


@dataclass(frozen=True)
class _Files:
    """The texts of the files; None for one that is not there."""

    own: str | None
    main: str | None
    templated: str | None
    # Of the user's part: owner, group and permissions, for a restoration. It may have passwords.
    access: tuple[int, int, int] = (0, 0, 0o600)


def reconcile_bird(wanted: Configuration | None, *, write: bool, places: Places | None = None) -> Outcome:
    """Bring BIRD to the configuration; None removes Heddle's part.

    A configuration that BIRD does not accept is a BirdError, and the files are as before. Without a BIRD that runs, its
    files are written, which it reads when it starts, and a note says so.
    """
    places = places or Places()
    own, templated = _read(places.own), _read(places.templated)
    if wanted is None and own is None and templated is None:
        return Outcome()
    main = _read(places.main)
    former = _Files(own, main, templated, _access(places.templated))
    mark, text = _completed(wanted, main or "", templated)
    if wanted is not None and main is None:
        change = _change("create", "configuration", places.own, None, text)
        if write:
            raise BirdError(f"{places.main} is missing: BIRD is not installed; run heddle.ovn.networks")
        return Outcome((change,))
    is_wanted = wanted is not None
    changed = None if main is None else _with_include(main, places) if is_wanted else _without_include(main, places)
    files = _Files(text, changed, templated if is_wanted else None, former.access)
    changes = _file_changes(places, former, files)
    try:
        with Control(places.socket) as control:
            running = _running(control)
            if not changes and mark is not None and mark not in running:
                sides = ({"description": ", ".join(running)}, {"description": mark})
                changes.append(Change(SUBSTRATE, "update", "running configuration", places.main, "", *sides))
            if changes and write:
                _write(places, files)
                refusal = _configure(control, mark)
                if refusal:
                    _write(places, former)
                    raise BirdError(f"BIRD does not accept its configuration, which was restored: {refusal}")
            # Sessions take some seconds after a change, and what was written is not looked at again.
            quiet = write or changes or not is_wanted
            return Outcome(tuple(changes), notes=() if quiet else tuple(_silent(control)))
    except NotRunning as error:
        if changes and write:
            _write(places, files)
        return Outcome(tuple(changes), notes=(str(error),) if is_wanted else ())


def _with_include(main: str, places: Places) -> str:
    if places.include in main.splitlines():
        return main
    end = "" if main.endswith("\n") or not main else "\n"
    return f"{main}{end}\n{_COMMENT}\n{places.include}\n"


def _without_include(main: str, places: Places) -> str:
    # As it was, to the byte, unless the lines were moved.
    without = main.replace(f"\n{_COMMENT}\n{places.include}\n", "")
    own = (places.include, _COMMENT)
    return "".join(line for line in without.splitlines(keepends=True) if line.rstrip("\n") not in own)


def _file_changes(places: Places, former: _Files, files: _Files) -> list[Change]:
    changes = []
    if files.templated != former.templated:
        # Of the user's part no text, which may have passwords of sessions.
        before = {"digest": hashlib.sha256(former.templated.encode(errors=_AS_IT_IS)).hexdigest()}
        changes.append(Change(SUBSTRATE, "delete", "configuration", places.templated, "", before, {}))
    if files.own != former.own:
        action = "delete" if files.own is None else "create" if former.own is None else "update"
        changes.append(_change(action, "configuration", places.own, former.own, files.own))
    if files.main != former.main:
        sides = ({"include": places.include in text.splitlines()} for text in (former.main, files.main))
        changes.append(Change(SUBSTRATE, "update", "include", places.main, "", *sides))
    return changes


def _running(control: Control) -> list[str]:
    return sorted({text for text in control.descriptions(OWN) if text.startswith("heddle ")})


def _configure(control: Control, mark: str | None) -> str:
    """Make BIRD read its files and wait until it runs them; return its reason for not accepting them, else ""."""
    try:
        control.command("configure check")
        control.command("configure")
        _wait(control, mark)
    except NotRunning:
        raise
    except BirdError as refused:
        return str(refused)
    return ""


def _completed(wanted: Configuration | None, main: str, templated: str | None) -> tuple[str | None, str | None]:
    """Return the description that distinguishes the configuration, and the text with it; None without one."""
    if wanted is None:
        return None, None
    digest = wanted.digest
    bfd = "" if _OWN_BFD.search(f"{main}\n{templated or ''}") else wanted.bfd
    if templated is not None:
        digest = hashlib.sha256(f"{digest}\n{templated}".encode(errors=_AS_IT_IS)).hexdigest()[: len(digest)]
    mark = f"heddle {digest}"
    return mark, wanted.text.replace(MARK, mark) + bfd


def _wait(control: Control, mark: str | None) -> None:
    """Wait until BIRD runs the configuration: it answers before protocols that go have ended."""
    for _attempt in attempts(_TIMEOUT):
        running = _running(control)
        if (mark in running) if mark is not None else not running:
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
    old, new = (_shown(text or "").splitlines() for text in (before, after))
    if action == "update":
        kept = {*old} & {*new}
        old, new = ([line for line in lines if line not in kept] for lines in (old, new))
    sides = ({"lines": lines} if text is not None else {} for lines, text in ((old, before), (new, after)))
    return Change(SUBSTRATE, action, kind, name, "", *sides)


def _shown(text: str) -> str:
    """Return text that can be printed, with escapes for bytes that are no UTF-8."""
    return text.encode(errors=_AS_IT_IS).decode(errors="backslashreplace")


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors=_AS_IT_IS, newline="") as text:
            return text.read()
    except FileNotFoundError:
        return None


def _access(path: str) -> tuple[int, int, int]:
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path)
        return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)
    return _Files.access


def _write(places: Places, files: _Files) -> None:
    """Bring the files to this state: Heddle's first, since bird.conf may refer to it, and what is to go last."""
    wanted = {places.own: files.own, places.templated: files.templated, places.main: files.main}
    for path, text in wanted.items():
        if text is not None and text != _read(path):
            mode = {places.main: None, places.own: 0o644, places.templated: 0o600}[path]
            replace_file(path, text.encode(errors=_AS_IT_IS), mode=mode, single_writer=True)
            if path == places.templated:
                user, group, permissions = files.access
                os.chown(path, user, group)
                os.chmod(path, permissions)
    for path in (places.own, places.templated):
        if wanted[path] is None and os.path.exists(path):
            os.unlink(path)
