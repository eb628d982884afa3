# SPDX-License-Identifier: Apache-2.0
"""The end of asyncio tasks, which the daemons of a host wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

# Until a task that goes on is cancelled once more.
_AGAIN_SECONDS = 1.0


async def end(tasks: Iterable[asyncio.Task]) -> None:
    """Cancel tasks until all have ended; what they raise is dropped.

    Once is not enough: before Python 3.12 `asyncio.wait_for`, which dnspython uses as well, loses a cancellation that
    comes together with the result (https://github.com/python/cpython/issues/86296), and the task goes on.
    """
    every = {*tasks}
    running = every
    while running:
        for task in running:
            task.cancel()
        _ended, running = await asyncio.wait(running, timeout=_AGAIN_SECONDS)
    await asyncio.gather(*every, return_exceptions=True)
