# SPDX-License-Identifier: Apache-2.0
"""Whether a workload is ready, by what became of its probes (Kubernetes, "Configure Liveness, Readiness and Startup
Probes").
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..common.serialization import digest
from ..types.readiness_probe import Probe

# Kubernetes probes containers that are not ready more often than each period, too.
_QUICK_SECONDS = 1


@dataclass
class Readiness:
    """A workload begins without being ready. `failure` says why the last probe failed, "" for one that did not."""

    probe: Probe
    ready: bool = False
    probed: bool = False
    failure: str = ""
    _successes: int = 0
    _failures: int = 0

    @classmethod
    def restored(cls, probe: Probe, entry: dict) -> Readiness:
        """Return the readiness as in a report's entry, unless that is of another probe."""
        if entry.get("probe") != digest(asdict(probe)):
            return cls(probe)
        return cls(probe, ready=entry["ready"], probed=True, failure=entry["message"])

    def record(self, failure: str) -> bool:
        """Count a probe, with "" for one that succeeded; return whether the report has to be written again."""
        before = self.report()
        self.probed = True
        if failure:
            self._successes, self._failures = 0, self._failures + 1
            if self._failures >= self.probe.failures:
                self.ready = False
        else:
            self._successes, self._failures = self._successes + 1, 0
            if self._successes >= self.probe.successes:
                self.ready = True
        self.failure = "" if self.ready else failure or self.failure
        return before != self.report()

    @property
    def pause(self) -> int:
        """Return the seconds until the next probe."""
        return _QUICK_SECONDS if not self.ready and self._failures < self.probe.failures else self.probe.period

    def report(self) -> dict | None:
        """Return the entry of the report; None before the first probe."""
        if not self.probed:
            return None
        return {"ready": self.ready, "message": self.failure, "probe": digest(asdict(self.probe))}
