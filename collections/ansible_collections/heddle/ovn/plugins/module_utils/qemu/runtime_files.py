# SPDX-License-Identifier: Apache-2.0
"""Files in the directory of a VM. QEMU's user owns it, and root must not follow what that user may have put there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ..common.files.atomic_file import replace_file


def read_file(path: Path) -> str:
    """Return the text of a regular file; OSError for a link, a pipe or a missing file."""
    # A pipe without a writer would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        return file.read()


def write_file(path: Path, text: str) -> None:
    """Put a new file in this place, in one step, whatever is there; it does not outlive a restart of the host."""
    replace_file(path, text, mode=0o644, durable=False)
