# SPDX-License-Identifier: Apache-2.0
"""What ip(8) prints, for hosts that have nothing of Heddle, and for what is shown as an operator sees it."""

from __future__ import annotations

import json

from ..common.processes.subprocesses import run


def ip(*arguments: str) -> list[dict]:
    """Return the objects that `ip -json` prints; ProgramError when it fails."""
    return json.loads(run(["ip", "-json", *arguments]))
