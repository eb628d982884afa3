# SPDX-License-Identifier: Apache-2.0
"""Restores units, files, users and kernel settings of a host to what the record has. Each part decides, then writes."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection, Iterable

from ..common.change import Change, Outcome
from ..common.errors import EngineError
from ..common.files.atomic_file import replace_file
from ..common.files.service_files import full_name
from ..common.processes import subprocesses
from .footprint import FOOTPRINTS, LIBRARY, STATE_DATABASE
from .record import RECORD_FILE, SETTINGS, Before, has_user, read_sysctl, unit_state

SUBSTRATE = "host"
_ACTIVE = ("active", "activating", "reloading")
_GONE = "not-found"


def stop_own_unit(unit: str, *, write: bool, run: subprocesses.Run = subprocesses.run) -> Outcome:
    """Stop and disable a unit of Heddle's."""
    enabled, active = unit_state(unit, run)
    if enabled == _GONE or (active not in _ACTIVE and enabled != "enabled"):
        return Outcome()
    if write:
        run(["systemctl", "disable", "--now", full_name(unit)])
    before = {"enabled": enabled, "active": active}
    return Outcome((Change(SUBSTRATE, "delete", "unit", unit, "", before, {}),))


def restore_units(before: Before, *, ovn: bool, write: bool, run: subprocesses.Run = subprocesses.run) -> Outcome:
    """Stop and disable the units of other software that did not run, or were not enabled, before.

    `ovn` selects the units of OVN, otherwise those of Open vSwitch.
    A unit that ran before and does not run now is left as it is: a user may have stopped it since.
    """
    changes = []
    for unit, (was_enabled, was_active) in before.first("units").items():
        if unit.startswith("ovn") != ovn:
            continue
        enabled, active = unit_state(unit, run)
        disable = enabled == "enabled" and was_enabled in ("disabled", _GONE)
        stop = active in _ACTIVE and was_active not in _ACTIVE
        if not (disable or stop):
            continue
        if write:
            if disable:
                run(["systemctl", "disable", f"{unit}.service"])
            if stop:
                run(["systemctl", "stop", f"{unit}.service"])
        was, now = {"enabled": enabled, "active": active}, {"enabled": was_enabled, "active": was_active}
        changes.append(Change(SUBSTRATE, "update", "unit", unit, "", was, now))
    return Outcome(tuple(changes))


def remove_own_files(*, write: bool, run: subprocesses.Run = subprocesses.run) -> Outcome:
    """Remove files and directories of Heddle's, but for the record and what else is beside it.

    Folders of drop-ins that are empty then are removed by `restore_files`.
    """
    outcome, units = Outcome(), False
    for footprint in FOOTPRINTS.values():
        for path in map(os.path.expanduser, footprint.own):
            removed = _remove(path, write=write)
            units = units or (removed.changed and "/systemd/system/" in path)
            outcome += removed
    if write and units:
        run(["systemctl", "daemon-reload"])
    return outcome


def restore_files(before: Before, *, write: bool) -> Outcome:
    """Remove files and empty folders of other software that were missing before, and restore small texts."""
    outcome = Outcome()
    paths = before.first("paths")
    for footprint in FOOTPRINTS.values():
        for path in map(os.path.expanduser, footprint.shared):
            if path in paths:
                outcome += _remove(path, write=write) if paths[path] is None else _restored(path, paths[path], write)
        for path in map(os.path.expanduser, footprint.folders):
            if path in paths and paths[path] is None:
                outcome += _remove_folder(path, write=write)
    return outcome


def _restored(path: str, text: str, write: bool) -> Outcome:
    """Restore a file that is there. EngineError where that fails: the record stays then, and the next run restores."""
    if not text:
        return Outcome()
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = file.read()
        if found == text:
            return Outcome()
        if write:
            replace_file(path, text, single_writer=True)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        # Gone with its package, or something else of a user's.
        return Outcome()
    except OSError as error:
        raise EngineError(f"{path} cannot be restored: {error.strerror}; mend that, then run this again") from error
    return Outcome((Change(SUBSTRATE, "update", "file", path, "", {"text": found}, {"text": text}),))


def _remove(path: str, *, write: bool) -> Outcome:
    """Remove a file or a directory with all that is in it."""
    if not os.path.lexists(path):
        return Outcome()
    folder = os.path.isdir(path) and not os.path.islink(path)
    if write:
        try:
            shutil.rmtree(path) if folder else os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise EngineError(f"{path} cannot be removed: {error.strerror}") from error
    kind = "directory" if folder else "file"
    return Outcome((Change(SUBSTRATE, "delete", kind, path, "", {"path": path}, {}),))


def _remove_folder(path: str, *, write: bool) -> Outcome:
    """Remove a folder that is, or in check mode would be, empty; ip-netns(8) mounts its own on itself."""
    if not os.path.isdir(path):
        return Outcome()
    own = {one for footprint in FOOTPRINTS.values() for one in map(os.path.expanduser, footprint.own)}
    with os.scandir(path) as entries:
        left = [entry.path for entry in entries if write or entry.path not in own]
    if left and (write or path != "/run/netns"):
        return Outcome()
    if write:
        _remove_empty(path)
    return Outcome((Change(SUBSTRATE, "delete", "directory", path, "", {"path": path}, {}),))


def _remove_empty(path: str) -> None:
    try:
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            subprocesses.run(["umount", path])
            os.rmdir(path)
    except OSError as error:
        raise EngineError(f"{path} cannot be removed: {error.strerror}") from error


def remove_library(*, write: bool) -> Outcome:
    """Remove Heddle's directory of files on a host, the record last: what is left after a cut off run needs it."""
    outcome = Outcome()
    if os.path.isdir(LIBRARY):
        for name in sorted(os.listdir(LIBRARY)):
            path = os.path.join(LIBRARY, name)
            if path != RECORD_FILE:
                outcome += _remove(path, write=write)
        outcome += _remove(RECORD_FILE, write=write)
        outcome += _remove(LIBRARY, write=write)
    return outcome


def remove_state_database(*, write: bool) -> Outcome:
    """Remove the state database."""
    return _remove(STATE_DATABASE, write=write)


def remove_users(
    before: Before, kept: Iterable[str] = (), *, write: bool, run: subprocesses.Run = subprocesses.run
) -> Outcome:
    """Remove the users that roles have created; those in `kept` own files that stay."""
    changes = []
    for user, existed in before.first("users").items():
        if existed or user in kept or not has_user(user):
            continue
        if write:
            run(["userdel", user])
        changes.append(Change(SUBSTRATE, "delete", "user", user, "", {"user": user}, {}))
    return Outcome(tuple(changes))


def restore_sysctls(
    before: Before, restored: Collection[str] = (), *, write: bool, root: str = "/proc/sys"
) -> Outcome:  # fmt: skip
    """Restore kernel settings that still have the value that Heddle gives them; another value is a user's.

    `restored` are settings that a step before has, or in check mode would have, restored.
    """
    changes = []
    for name, was in before.first("sysctls").items():
        if name in restored:
            continue
        folder, _device, setting = name.rsplit("/", 2)
        found = read_sysctl(name, root)
        if found not in (None, was) and found == SETTINGS.get((folder, setting)):
            changes.append(Change("kernel", "update", "sysctl", name, "", {"value": found}, {"value": was}))
    # Decided before the first write: `all` sets the others.
    for change in changes if write else ():
        with open(f"{root}/{change.name}", "w", encoding="ascii") as value:
            value.write(change.after["value"])
    return Outcome(tuple(changes))


def own_traces() -> list[str]:
    """Return what of Heddle's is on this host, files and directories by name."""
    own = [*(path for footprint in FOOTPRINTS.values() for path in footprint.own), LIBRARY, STATE_DATABASE]
    return [path for path in map(os.path.expanduser, own) if os.path.lexists(path)]
