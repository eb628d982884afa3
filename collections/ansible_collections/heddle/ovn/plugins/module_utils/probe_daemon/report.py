# SPDX-License-Identifier: Apache-2.0
"""The report of the daemon: whether each workload of this host that has a probe is ready.

It has `ready` and `message` by NAMESPACE/NAME, each with the digest of its `probe`; those that were not probed yet are
missing.
"""

from __future__ import annotations

import time
from dataclasses import asdict

from ..common.files.daemon_report import read_report
from ..common.serialization import digest
from ..types.readiness_probe import Probe

READINESS_REPORT = "/run/heddle/readiness.json"
_LOOK_SECONDS = 0.1


def current_report(probes: dict[str, Probe], path: str = READINESS_REPORT) -> dict[str, dict]:
    """Return the entries of these probes without their digests; those of others are left out."""
    return {
        name: {"ready": entry["ready"], "message": entry["message"]}
        for name, entry in read_report(path).items()
        if name in probes and entry.get("probe") == digest(asdict(probes[name]))
    }


def wait_for_report(probes: dict[str, Probe], patience: float, path: str = READINESS_REPORT) -> dict[str, dict]:
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
