# SPDX-License-Identifier: Apache-2.0
"""Replacement for an Ansible module when the engines run without Ansible, and the lock for one writer on a host."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass

LOCK_FILE = "/run/heddle/lock"


@dataclass(frozen=True)
class Invocation:
    """The part of an Ansible module that the engines use."""

    params: dict
    check_mode: bool


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
