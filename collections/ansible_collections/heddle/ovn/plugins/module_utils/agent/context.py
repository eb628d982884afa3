# SPDX-License-Identifier: Apache-2.0
"""The node that an engine works for, and the lock for one writer on a host."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass

from .comparison_record import ComparisonRecord

LOCK_FILE = "/run/heddle/lock"


@dataclass(frozen=True)
class NodeContext:
    """A node of the plan, where its plan is, and whether changes are written.

    `node` is the node's name in the plan and `plan_path` the file that keeps the plan there. `document` is the plan
    itself as `serialization.pack` makes it; without one the file is read. OVN may take `timeout` seconds to realise a
    change, 0 does not wait. Without `write` changes are computed only, as in Ansible's check mode. With `record`, what
    is read as in a recorded comparison that found no difference is not compared again. With `former`, the plan that was
    stored on the host, what differs from it is written first (`agent/first_changes.py`).
    """

    node: str
    plan_path: str
    write: bool
    document: str | None = None
    timeout: int = 0
    record: ComparisonRecord | None = None
    former: dict | None = None


@contextlib.contextmanager
def only_writer(*, write: bool) -> Iterator[None]:
    """Wait for the host's lock: playbooks and the host service would conflict."""
    if not write:
        yield
        return
    os.makedirs(os.path.dirname(LOCK_FILE), mode=0o755, exist_ok=True)
    with open(LOCK_FILE, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Wait until no other process of this host is in such a block for the directory (flock(2))."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
