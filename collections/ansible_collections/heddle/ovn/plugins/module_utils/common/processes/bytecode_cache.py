# SPDX-License-Identifier: Apache-2.0
"""Caches compiled byte code per user, since Ansible would compile the program in each process.

Ansible sends a module with all that it imports as one archive, and Python stores no byte code for imports from
archives. Importing this file first (`module_runner` does, which modules import before all else) makes Python look for
byte code in a directory of the user's own. A file there counts only if it was made by this version of Python from a
source of the same checksum and size, and is whole; so it may be deleted at any time, and a damaged or old one is
replaced. Nothing is stored before `keep` is called, which check mode never does.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import marshal
import os
import pwd
import stat
import struct
import sys
import zipfile
import zlib
from pathlib import Path
from types import CodeType

from ..files.atomic_file import replace_file

_KEY = struct.Struct("<4sIII")  # Python's magic number, checksum and size of the source, checksum of the byte code


class Compiled(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads the modules of one package in an archive, with byte code from a directory."""

    def __init__(self, archive: str, package: str, directory: Path):
        self._archive = archive
        self._directory = directory
        with zipfile.ZipFile(archive) as content:
            prefix = f"{package.replace('.', '/')}/"
            self._files = {entry.filename: entry for entry in content.infolist() if entry.filename.startswith(prefix)}
        self._fresh = {}

    def find_spec(self, fullname, path=None, target=None):
        """Return the spec of a module that the archive has, else None."""
        del path, target
        file = self._file(fullname)
        if file is None:
            return None
        return importlib.util.spec_from_loader(
            fullname, self, origin=f"{self._archive}/{file.filename}", is_package=self.is_package(fullname)
        )

    def is_package(self, fullname):
        """Whether the module is a package."""
        return self._file(fullname).filename.endswith("/__init__.py")

    def get_source(self, fullname):
        """Return the source, for tracebacks."""
        return self._source(fullname).decode()

    def get_code(self, fullname) -> CodeType:
        """Return the byte code, compiled again unless it is cached for exactly this source."""
        file = self._file(fullname)
        key = importlib.util.MAGIC_NUMBER, file.CRC, file.file_size
        with contextlib.suppress(OSError, struct.error):
            content = self._path(fullname).read_bytes()
            body = memoryview(content)[_KEY.size :]
            if _KEY.unpack_from(content) == (*key, zlib.crc32(body)):
                return marshal.loads(body)
        code = self.source_to_code(self._source(fullname), f"{self._archive}/{file.filename}")
        body = marshal.dumps(code)
        self._fresh[fullname] = _KEY.pack(*key, zlib.crc32(body)) + body
        return code

    def keep(self) -> None:
        """Write what was compiled; where that is impossible or unsafe, continue without."""
        if not self._fresh:
            return
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not trusted(self._directory):
                return
            for fullname, content in self._fresh.items():
                replace_file(self._path(fullname), content, mode=0o600, durable=False)
            self._fresh = {}

    def _path(self, fullname):
        return self._directory / f"{fullname}.{sys.implementation.cache_tag}"

    def _file(self, fullname):
        name = fullname.replace(".", "/")
        return self._files.get(f"{name}.py") or self._files.get(f"{name}/__init__.py")

    def _source(self, fullname):
        with zipfile.ZipFile(self._archive) as content:
            return content.read(self._file(fullname))


def trusted(directory: Path) -> bool:
    """Whether only this user and root can have written the directory: its content will be executed."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _may_be_used(directory: Path) -> bool:
    """Whether the directory is trusted, or may be created; services without access to the home directory have none."""
    try:
        directory.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return trusted(directory)


def _start() -> Compiled | None:
    archive = getattr(__loader__, "archive", None)
    if archive is None:
        return None
    try:
        directory = Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".cache/heddle/compiled"
    except KeyError:
        return None
    if not _may_be_used(directory):
        return None
    found = Compiled(archive, __package__.removesuffix(".common.processes"), directory)
    sys.meta_path.insert(0, found)
    return found


_FOUND = _start()


def keep() -> None:
    """Store what this process compiled for the next one."""
    if _FOUND:
        _FOUND.keep()
