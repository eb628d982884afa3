# SPDX-License-Identifier: Apache-2.0
"""Whether the gateways match the plan on disk; if not, a playbook is still running, or was interrupted."""

from __future__ import annotations

import os

from ..module_runner import PLAN_FILE, UserError, read_plan_file
from ..node_gateway import applied_digest


class Converged:
    """Returns when called whether they match. The plan is read again only when the file changed."""

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
