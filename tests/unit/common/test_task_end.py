# SPDX-License-Identifier: Apache-2.0
"""Tasks that end, whatever they do with a cancellation."""

from __future__ import annotations

import asyncio

from ansible_collections.heddle.ovn.plugins.module_utils.common.processes import task_end
from ansible_collections.heddle.ovn.plugins.module_utils.common.processes.task_end import end


def test_a_task_that_loses_cancellations_ends(monkeypatch) -> None:
    monkeypatch.setattr(task_end, "_AGAIN_SECONDS", 0.01)
    lost = []

    async def loses() -> None:
        while len(lost) < 3:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                lost.append(1)
        await asyncio.sleep(3600)

    async def fails() -> None:
        raise OSError("what a task raises is dropped")

    async def run() -> list[asyncio.Task]:
        tasks = [asyncio.ensure_future(made) for made in (loses(), fails(), asyncio.sleep(3600))]
        await asyncio.sleep(0)
        await end(tasks)
        await end([])
        return tasks

    tasks = asyncio.run(run())
    assert all(task.done() for task in tasks)
    assert len(lost) == 3
