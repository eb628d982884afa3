# SPDX-License-Identifier: Apache-2.0
"""Steps of the engines that write to the kernel: all are decided first, then performed in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..common.change import Change, Outcome
from ..common.errors import NetlinkError
from .kernel import NetlinkFailure

Planned = Callable[[list[Change]], None]


@dataclass(frozen=True)
class Step:
    """One change and the function that makes it; the failure of an `optional` one is only a note."""

    change: Change
    write: Callable[[], None]
    optional: bool = False


def perform(steps: list[Step], *, write: bool, planned: Planned | None = None) -> Outcome:
    """Perform the steps, if `write`, and return the changes; `planned` is called with them before the first one.

    When a step of a network fails, the network's later steps are left out and the outcome has the reason; those of
    other networks continue. A failure of a step common to all networks is a NetlinkError.
    """
    refused: dict[str, str] = {}
    done, notes = [], []
    if planned and write and steps:
        planned([step.change for step in steps])
    for step in steps:
        if step.change.network in refused:
            continue
        try:
            if write:
                step.write()
        except (OSError, NetlinkFailure) as error:
            if step.optional:
                notes.append(f"{step.change}: {error}")
                continue
            if not step.change.network:
                raise NetlinkError(f"{step.change}: {error}") from error
            refused[step.change.network] = f"{step.change}: {error}"
            continue
        done.append(step.change)
    return Outcome(tuple(done), refused=tuple(refused.items()), notes=tuple(notes))
