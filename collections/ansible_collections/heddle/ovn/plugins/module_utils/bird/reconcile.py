# SPDX-License-Identifier: Apache-2.0
"""The engine for BIRD: one configuration file of Heddle's own, and the line in bird.conf that includes it.

Everything else in bird.conf is the user's. Own are the file and protocols and tables whose names begin with `heddle`;
the configuration that BIRD runs has its digest as a description, so an interrupted run is noticed. What the role bird
made of a user's template is in a file that BIRD does not read. It becomes the second file of the configuration when
BIRD accepts it: a reboot would otherwise leave the host without BIRD. Its digest is part of the description.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import stat
from dataclasses import dataclass

from ..common.change import Change, Outcome
from ..common.files.atomic_file import replace_file
from ..common.naming import ADDRESS_POOLS
from ..common.polling import attempts
from ..common.processes import subprocesses
from ..types.bird_configuration import MARK, Configuration
from .check import refusal
from .control import SOCKET, BirdError, Control, NotRunning

SUBSTRATE = "BIRD"
_TIMEOUT = 30.0
OWN = "heddle*"
# A pattern: BIRD would refuse to start without a file that is named exactly.
_INCLUDED = "{}/heddle*.conf"
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
        """The user's part, of a template; read after Heddle's, in the order of the names."""
        return f"{self.directory}/heddle_template.conf"

    @property
    def proposed(self) -> str:
        """What the role bird makes of the user's template; BIRD does not read it."""
        return f"{self.directory}/heddle_template.wanted"

    @property
    def included(self) -> str:
        """The pattern of the files that bird.conf includes."""
        return _INCLUDED.format(self.directory)

    @property
    def include(self) -> str:
        """The line of bird.conf that has BIRD read Heddle's file."""
        return f'include "{self.included}";'


@dataclass(frozen=True)
class _Files:
    """The texts of the files; None for one that is not there."""

    own: str | None
    main: str | None
    templated: str | None
    proposed: str | None
    # Of the user's part: owner, group and permissions, for a restoration. It may have passwords.
    access: tuple[int, int, int] = (0, 0, 0o600)


def reconcile_bird(
    wanted: Configuration | None, *, write: bool, places: Places | None = None, run: subprocesses.Run = subprocesses.run
) -> Outcome:
    """Bring BIRD to the configuration; None removes Heddle's part.

    A configuration that BIRD does not accept is a BirdError, and the files are as before. Without a BIRD that runs, its
    files are written if its program accepts them, it reads them when it starts, and a note says so.
    """
    places = places or Places()
    own, templated, proposed = map(_read, (places.own, places.templated, places.proposed))
    # What the role made for a plan that is to come stays.
    if wanted is None and own is None and templated is None:
        return Outcome()
    access = _access(places.proposed if templated is None else places.templated)
    former = _Files(own, _read(places.main), templated, proposed, access)
    mark, files = _wanted_files(wanted, former, places)
    if wanted is not None and former.main is None:
        change = _change("create", "configuration", places.own, None, files.own)
        if write:
            raise BirdError(f"{places.main} is missing: BIRD is not installed; run heddle.ovn.networks")
        return Outcome((change,))
    changes = _file_changes(places, former, files)
    if changes and write and wanted is not None:
        _check(places, files, run)
    try:
        with Control(places.socket) as control:
            running = _running(control)
            if not changes and mark is not None and mark not in running:
                sides = ({"description": ", ".join(running)}, {"description": mark})
                changes.append(Change(SUBSTRATE, "update", "running configuration", places.main, ADDRESS_POOLS, *sides))
            if changes and write:
                _write(places, files)
                reason = _configure(control, mark)
                if reason:
                    _write(places, former)
                    raise BirdError(f"BIRD does not accept its configuration, which was restored: {reason}")
            # Sessions take some seconds after a change, and what was written is not looked at again.
            quiet = write or changes or wanted is None
            return Outcome(tuple(changes), notes=() if quiet else tuple(_silent(control)))
    except NotRunning as error:
        if changes and write:
            _write(places, files)
        return Outcome(tuple(changes), notes=(str(error),) if wanted is not None else ())


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
        sides = [{} if text is None else {"digest": _digest(text)} for text in (former.templated, files.templated)]
        changes.append(Change(SUBSTRATE, _action(*sides), "configuration", places.templated, ADDRESS_POOLS, *sides))
    if files.proposed != former.proposed:
        before = {"digest": _digest(former.proposed)}
        changes.append(Change(SUBSTRATE, "delete", "configuration", places.proposed, ADDRESS_POOLS, before, {}))
    if files.own != former.own:
        action = _action(former.own, files.own)
        changes.append(_change(action, "configuration", places.own, former.own, files.own))
    if files.main != former.main:
        sides = ({"include": places.include in text.splitlines()} for text in (former.main, files.main))
        changes.append(Change(SUBSTRATE, "update", "include", places.main, ADDRESS_POOLS, *sides))
    return changes


def _action(before: object, after: object) -> str:
    return "create" if not before else "update" if after else "delete"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors=_AS_IT_IS)).hexdigest()


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


def _wanted_files(wanted: Configuration | None, former: _Files, places: Places) -> tuple[str | None, _Files]:
    """Return the description that distinguishes the configuration, None without one, and the files."""
    if wanted is None:
        main = None if former.main is None else _without_include(former.main, places)
        return None, _Files(None, main, None, None)
    # Without a proposal the file is of an earlier release, until the role makes one.
    templated, access = former.templated, former.access
    if former.proposed is not None:
        templated, access = former.proposed, _access(places.proposed)
    digest = wanted.digest
    bfd = "" if _OWN_BFD.search(f"{former.main}\n{templated or ''}") else wanted.bfd
    if templated is not None:
        digest = hashlib.sha256(f"{digest}\n{templated}".encode(errors=_AS_IT_IS)).hexdigest()[: len(digest)]
    mark = f"heddle {digest}"
    main = None if former.main is None else _with_include(former.main, places)
    return mark, _Files(wanted.text.replace(MARK, mark) + bfd, main, templated, former.proposed, access)


def _check(places: Places, files: _Files, run: subprocesses.Run) -> None:
    """Refuse what BIRD would not accept, also when it starts, before anything is written."""
    texts = {places.main: files.main, places.own: files.own, places.templated: files.templated}
    # Others of the user's.
    texts |= {path: _read(path) for path in glob.glob(places.included) if path not in texts}
    contents = {path: text.encode(errors=_AS_IT_IS) for path, text in texts.items() if text is not None}
    reason = refusal(places.main, contents, places.included, run)
    if reason:
        raise BirdError(f"BIRD does not accept its configuration, so the former one stays: {reason}")


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
    return Change(SUBSTRATE, action, kind, name, ADDRESS_POOLS, *sides)


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
    users = {places.templated: files.templated, places.proposed: files.proposed}
    for path, text in {places.own: files.own, **users, places.main: files.main}.items():
        if text is not None and text != _read(path):
            mode = 0o600 if path in users else {places.main: None, places.own: 0o644}[path]
            replace_file(path, text.encode(errors=_AS_IT_IS), mode=mode, single_writer=True)
            if path in users:
                user, group, permissions = files.access
                os.chown(path, user, group)
                os.chmod(path, permissions)
    for path, text in {places.own: files.own, **users}.items():
        if text is None and os.path.exists(path):
            os.unlink(path)
