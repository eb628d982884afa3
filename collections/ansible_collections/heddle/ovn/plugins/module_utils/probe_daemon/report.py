# SPDX-License-Identifier: Apache-2.0
"""The report of the daemon: whether each workload of this host that has a probe is ready."""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator
from dataclasses import asdict

from ..common.serialization import digest
from ..types.readiness_probe import Probe

REPORT = "/run/heddle/readiness.json"
_LOOK_SECONDS = 0.1


@contextlib.contextmanager
def only_daemon(path: str = REPORT) -> Iterator[None]:
    """Be the daemon that writes a report; BlockingIOError when there is one already."""
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def is_running(path: str = REPORT) -> bool:
    """Return whether there is such a daemon."""
    try:
        with open(f"{path}.lock", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_report(path: str = REPORT) -> dict[str, dict]:
    """Return `ready` and `message` by NAMESPACE/NAME; those that were not probed yet are missing.

    Each entry has the digest of its `probe`. A file that is missing or damaged counts as empty.
    """
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def current_report(probes: dict[str, Probe], path: str = REPORT) -> dict[str, dict]:
    """Return the entries of these probes without their digests; those of others are left out."""
    return {
        name: {"ready": entry["ready"], "message": entry["message"]}
        for name, entry in read_report(path).items()
        if name in probes and entry.get("probe") == digest(asdict(probes[name]))
    }


def wait_for_report(probes: dict[str, Probe], patience: float, path: str = REPORT) -> dict[str, dict]:
    """Return the report once each workload was probed, at the latest after its first probe should have ended.

    `patience` are the seconds that the daemon may need besides.
    """
    began = time.monotonic()
    while True:
        found, waited = current_report(probes, path), time.monotonic() - began
        late = (waited < probe.delay + probe.timeout + patience for name, probe in probes.items() if name not in found)
        if not any(late):
            return found
        time.sleep(_LOOK_SECONDS)
