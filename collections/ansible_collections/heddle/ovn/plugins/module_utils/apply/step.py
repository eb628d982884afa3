# SPDX-License-Identifier: Apache-2.0
"""Steps of the engines that write to the kernel: first all are decided, then all are performed in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .change import Change, Outcome
from .errors import NetlinkError
from .kernel import NetlinkFailure


@dataclass(frozen=True)
class Step:
    """One change and what brings it about."""

    change: Change
    write: Callable[[], None]


def perform(steps: list[Step], *, write: bool) -> Outcome:
    """Write, if `write`, and return the changes."""
    for step in steps if write else ():
        try:
            step.write()
        except (OSError, NetlinkFailure) as error:
            raise NetlinkError(f"{step.change}: {error}") from error
    return Outcome(tuple(step.change for step in steps))
