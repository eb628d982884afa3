# SPDX-License-Identifier: Apache-2.0
"""Temporary directories that do not stay for good when a kernel is killed, which runs no code at its end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def directory(prefix: str) -> Iterator[Path]:
    """Yield an empty directory and remove it; first those with this prefix whose processes have ended are removed.

    Those in use have a lock that is held, beside the content.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if old.lstat().st_uid == os.geteuid() and not old.is_symlink():
                with open(old / "lock", encoding="utf-8") as handle:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(old)
    with tempfile.TemporaryDirectory(prefix=prefix) as made:
        # Another process finds the lock when it is held.
        new = Path(made, "lock.new")
        with open(new, "w", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            new.rename(new.with_name("lock"))
            content = Path(made, "content")
            content.mkdir()
            yield content
