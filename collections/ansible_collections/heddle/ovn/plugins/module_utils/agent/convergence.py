# SPDX-License-Identifier: Apache-2.0
"""Whether the gateways were brought to the plan on disk; if not, a playbook is still at work, or was cut off."""

from __future__ import annotations

import os

from .module_runner import PLAN_FILE, UserError, read_plan_file
from .node_gateway import applied_digest


class Converged:
    """Answers when called. The plan, which may be large, is read again only when it is another file."""

    def __init__(self, path: str = PLAN_FILE) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        self._digest = ""

    def __call__(self) -> bool:
        try:
            status = os.stat(self._path)
        except OSError:
            return False
        if self._file != (status.st_ino, status.st_mtime_ns):
            try:
                self._digest = read_plan_file(self._path)["digest"]
            except UserError:
                self._digest = ""
            self._file = status.st_ino, status.st_mtime_ns
        return bool(self._digest) and applied_digest() == self._digest
