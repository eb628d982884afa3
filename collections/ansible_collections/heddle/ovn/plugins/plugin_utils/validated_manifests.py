# SPDX-License-Identifier: Apache-2.0
"""Manifests that were found valid, so that equal ones need not be validated again by the same release.

A file's name is the digest of all that the result depends on: the sources of the collection, and the input. The files
are the user's own and no one else can write them; without such a directory nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.common.files.atomic_file import replace_file
from ansible_collections.heddle.ovn.plugins.module_utils.common.processes.bytecode_cache import trusted

# Sets of manifests whose results are kept.
_MOST = 8


class ValidatedManifests:
    """The result for one input, which is text; `sources` identify the release."""

    def __init__(self, sources: str, text: str, directory: Path | None = None) -> None:
        name = hashlib.sha256(f"{sources} {text}".encode()).hexdigest()[:32]
        self._path = (directory or _own_directory()) / f"{name}.json"

    def read(self) -> dict | None:
        """Return what was kept; None without that."""
        with contextlib.suppress(OSError, ValueError):
            if trusted(self._path.parent):
                found = json.loads(self._path.read_text(encoding="utf-8"))
                return found if isinstance(found, dict) and found.keys() == {"document", "count"} else None
        return None

    def keep(self, found: dict) -> None:
        """Keep a result; where that is impossible or unsafe, do nothing."""
        with contextlib.suppress(OSError):
            directory = self._path.parent
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not trusted(directory):
                return
            replace_file(str(self._path), json.dumps(found), mode=0o600, durable=False)
            files = sorted(directory.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in files[_MOST:]:
                path.unlink(missing_ok=True)


def _own_directory() -> Path:
    """Return the directory of this user; one that cannot be made for a user that the system does not know."""
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        home = os.devnull
    return Path(home) / ".cache/heddle/manifests"
