# SPDX-License-Identifier: Apache-2.0
"""A file that others replace, read again after each replacement."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ReplacedFile(Generic[T]):
    """What `read` makes of a file that is replaced as a whole (`atomic_file`); None while there is none."""

    def __init__(self, path: str, read: Callable[[str], T]) -> None:
        self._path, self._read = path, read
        self._version: tuple[int, int] | None = None
        self._value: T | None = None

    def __call__(self) -> T | None:
        """Return the present content; what `read` raises is raised again at the next call."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return None
        version = status.st_ino, status.st_mtime_ns
        if version != self._version:
            self._value = self._read(self._path)
            self._version = version
        return self._value
