# SPDX-License-Identifier: Apache-2.0
"""Checks the paths to other hosts for as long as the plan asks for it, and reports what does not get through.

The report has by host `size`, the largest IP packet in bytes that arrived, and `needed`, the size of a tunnelled packet
of the network with the largest MTU.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from ..common.files.daemon_report import Report
from .prober import Prober, Task

UNDERLAY_REPORT = "/run/heddle/underlay.json"
PERIOD = 30.0


def watch(wanted: Callable[[], Task | None], report: str, say: Callable[[str], None], period: float = PERIOD) -> None:
    """Check all paths every `period` seconds until `wanted` returns no task; then there is no report either.

    `Task.ceiling` is the size that has to get through.
    """
    known: dict[str, int] | None = None
    file = Report(report, say)
    while (task := wanted()) is not None:
        # Made anew each time: Open vSwitch may have made its tunnel device anew.
        prober = Prober(task)
        ends = time.monotonic() + period
        try:
            prober.search()
            # A search that takes longer than the period is ended: its host answers to nothing.
            while time.monotonic() < ends:
                prober.step()
            found = {name: min(sizes.values()) for name, sizes in prober.sent().items()}
        finally:
            prober.close()
        if found != known:
            for name, size in found.items():
                if known is not None and size != known.get(name, size):
                    say(f"path to {name}: packets of {size} bytes get through, {task.ceiling} are needed")
            known = found
        entries = {name: {"size": size, "needed": task.ceiling} for name, size in sorted(found.items())}
        file.write(entries)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(report)
