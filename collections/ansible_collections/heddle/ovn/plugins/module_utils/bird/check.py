# SPDX-License-Identifier: Apache-2.0
"""Checks configuration files with BIRD's program before they replace those that BIRD reads when it starts."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator, Mapping

from ..common.errors import NotInstalled, ProgramError
from ..common.files.atomic_file import replace_file
from ..common.processes import subprocesses

# Copies are beside the files, so that relative paths in bird.conf are right.
_COPY = ".check"


def refusal(main: str, files: Mapping[str, bytes], pattern: str, run: subprocesses.Run) -> str:
    """Return BIRD's reason for not accepting files, which are by path; "" where it accepts them or is not installed.

    The file `main` includes all others by `pattern`.
    """
    copied = {f"{path}{_COPY}": content for path, content in files.items()}
    included, copies = (f'include "{text}";'.encode() for text in (pattern, f"{pattern}{_COPY}"))
    copied[f"{main}{_COPY}"] = files[main].replace(included, copies)
    with _without_copies(main, pattern):
        for path, content in copied.items():
            # A user's part may have passwords.
            replace_file(path, content, mode=0o600, durable=False, single_writer=True)
        try:
            run(["bird", "-p", "-c", f"{main}{_COPY}"], "")
        except NotInstalled:
            return ""
        except ProgramError as error:
            return error.stderr.replace(f"{_COPY}:", ":").removeprefix("bird: ")
    return ""


@contextlib.contextmanager
def _without_copies(main: str, pattern: str) -> Iterator[None]:
    """Remove copies afterwards, and before that those of a run that was cut off."""

    def remove() -> None:
        for path in (f"{main}{_COPY}", *glob.glob(f"{pattern}{_COPY}")):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    remove()
    try:
        yield
    finally:
        remove()
