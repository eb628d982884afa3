# SPDX-License-Identifier: Apache-2.0
"""What a `Switch` read from ovs-vswitchd, as digests, and whether it still reads the same.

OpenFlow has no number that changes with the flows of a bridge, so they are dumped again, but neither parsed nor
compared with what `ovs-ofctl` makes of the desired ones.
"""

from __future__ import annotations

import hashlib
import os
import shutil

from ..common import subprocesses
from ..common.errors import ProgramError
from ..ovsdb.protocol.trace import Trace
from ..ovsdb.protocol.trace import replies_equal as database_equal

# Verbs that read; `parse-flows` reads nothing but its input.
_READS, _COMPUTES = frozenset({"dump-flows", "dump-ports-desc", "ofproto/list", "fdb/show"}), "parse-flows"


class SwitchTrace:
    """Runs programs for a `Switch` and notes what they read; `database` is for its client (`Client.trace`)."""

    def __init__(self, run: subprocesses.Run = subprocesses.run) -> None:
        self._run = run
        self._programs: list | None = []
        self.database = Trace()

    def run(self, argv: list[str], text: str = "") -> str:
        """Run a program and return its output."""
        output = self._run(argv, text)
        if not _reads(argv):
            self._programs = None
        elif self._programs is not None and _COMPUTES not in argv:
            self._programs.append([argv, _digest(argv, output)])
        return output

    def read(self) -> dict | None:
        """Return what was read, from the database too; None when something was written."""
        database = self.database.read()
        if self._programs is None or database is None:
            return None
        return {"database": database, "programs": self._programs}


def program_identity() -> str:
    """Return what changes when another version of Open vSwitch is installed, whose program may print otherwise."""
    path = shutil.which("ovs-ofctl", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    status = os.stat(path) if path else None
    return f"{status.st_ino} {status.st_mtime_ns} {status.st_size}" if status else ""


def replies_equal(remote: str, read: dict, timeout: float, run: subprocesses.Run = subprocesses.run) -> bool:
    """Whether the database and ovs-vswitchd reply as they did according to `SwitchTrace.read`."""
    if not all(_reads(argv) for argv, _digest_then in read["programs"]):
        return False
    if not database_equal(remote, read["database"], timeout):
        return False
    try:
        return all(_digest(argv, run(argv, "")) == then for argv, then in read["programs"])
    except ProgramError:
        return False


def _reads(argv: list[str]) -> bool:
    return argv[0] in ("ovs-ofctl", "ovs-appctl") and len({_COMPUTES, *_READS}.intersection(argv)) == 1


def _digest(argv: list[str], output: str) -> str:
    if "fdb/show" in argv:
        # Other entries were learned from packets, and have an age.
        output = "\n".join(line for line in output.splitlines() if line.endswith("static"))
    return hashlib.sha256(output.encode()).hexdigest()[:32]
