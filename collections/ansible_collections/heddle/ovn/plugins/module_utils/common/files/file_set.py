# SPDX-License-Identifier: Apache-2.0
"""Files of a host that are brought to given texts together, each atomically."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from ..errors import EngineError
from .atomic_file import replace_file

MODE = 0o644


@dataclass(frozen=True)
class FileChange:
    """A file that is not as it should be; `before` is its text, None when there is none."""

    path: str
    before: str | None
    after: str


def reconcile_files(files: dict[str, str], *, write: bool) -> list[FileChange]:
    """Bring files, texts by absolute path, to their texts and the mode 0644; return those that differed.

    Missing directories are made with the mode 0755. Raises EngineError for a path that is not absolute, before
    anything is written, and for errors of the operating system, which name the file.
    """
    relative = [path for path in files if not os.path.isabs(path)]
    if relative:
        raise EngineError(f"files: {', '.join(relative)}: not an absolute path; write it from the root on")
    found = []
    for path, text in files.items():
        try:
            before, mode = _read(path)
            if (before, mode) == (text, MODE):
                continue
            found.append(FileChange(path, before, text))
            if write:
                os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
                replace_file(path, text, mode=MODE, single_writer=True)
        except OSError as error:
            raise EngineError(f"{path}: {error.strerror or error}") from error
    return found


def _read(path: str) -> tuple[str | None, int]:
    """Return the text and the mode of a file; None for the text when there is no file of text."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return None, 0
