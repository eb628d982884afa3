# SPDX-License-Identifier: Apache-2.0
"""Replacing a file in one step: a reader finds the old content or the new one, never a part of it."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

DEFAULT_MODE = 0o644


def replace_file(
    path: str | os.PathLike, content: bytes | str, *, mode: int | None = None, durable: bool = True,
    single_writer: bool = False,
) -> None:  # fmt: skip
    """Write `content` (text as UTF-8) to a new file in the same directory and rename it to `path` (rename(2)).

    The file has the permissions `mode`; without one those of the file that it replaces, or DEFAULT_MODE. An owner and
    group are kept as far as this user may set them. With `durable` the content is on the disk before the name leads to
    it (fsync(2)), so that a power cut leaves no empty file. A run that is killed leaves the new file behind; where
    there is a `single_writer` at a time, that file has one name, PATH.new, and the next run writes it over.

    Raises OSError; `path` is as before then, and nothing else is left.
    """
    path = os.fspath(path)
    before = _status(path)
    if mode is None:
        mode = before.st_mode & 0o7777 if before else DEFAULT_MODE
    descriptor, temporary = _opened(path, single_writer)
    try:
        with open(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if before and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
            # Last, because a change of the owner takes bits away.
            os.fchmod(descriptor, mode)
            if durable:
                file.flush()
                os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _status(path: str) -> os.stat_result | None:
    """Return the status of a file; None when there is none, or when the name is a link, which is replaced itself."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _opened(path: str, single_writer: bool) -> tuple[int, str]:
    """Return a descriptor and the name of a file that only its owner can read so far."""
    if not single_writer:
        directory, name = os.path.split(path)
        return tempfile.mkstemp(prefix=f".{name}.", dir=directory or ".")
    temporary = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(temporary, flags, 0o600), temporary
