# SPDX-License-Identifier: Apache-2.0
"""Writes report files: only those that differ, each atomically."""

from __future__ import annotations

import os

from ..serialization import unpack
from .atomic_file import replace_file

REPORT_ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "files": {"type": "dict", "default": {}},
    "packed": {"type": "str", "default": ""},
}


class Refused(Exception):
    """A file that cannot be written, and why."""


def report_result(params: dict, *, write: bool) -> dict:
    """Return the result of the module `report`; Refused when a file cannot be written."""
    try:
        files = {**params["files"], **(unpack(params["packed"]) if params["packed"] else {})}
    except (TypeError, ValueError) as error:
        raise Refused(f"packed: {error}") from error
    written = keep(params["directory"], files, write=write)
    return {"changed": bool(written), "written": written}


def keep(directory: str, files: dict[str, str], *, write: bool) -> list[str]:
    """Write texts by file name into a directory; return the names that differed.

    Raises Refused for a name with a directory part, and for errors of the operating system.
    """
    wrong = [name for name in files if os.path.basename(name) != name or name in ("", ".", "..")]
    if wrong:
        raise Refused(f"files: {', '.join(wrong)}: a name without a directory is needed")
    try:
        changed = [name for name, text in files.items() if _read(os.path.join(directory, name)) != str(text)]
        if write:
            os.makedirs(directory, mode=0o755, exist_ok=True)
            for name in changed:
                replace_file(os.path.join(directory, name), str(files[name]), mode=0o644)
    except OSError as error:
        raise Refused(f"{error.filename or directory}: {error.strerror or error}") from error
    return changed


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
