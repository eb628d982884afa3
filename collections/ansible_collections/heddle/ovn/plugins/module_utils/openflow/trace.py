# SPDX-License-Identifier: Apache-2.0
"""What a `Switch` read from ovs-vswitchd, as digests, and whether it still reads the same.

OpenFlow has no number that changes with the flows of a bridge, so they are dumped again, but neither parsed nor
compared with what `ovs-ofctl` makes of the desired ones. Of the database the ports of the compared bridges count, whose
numbers are in flows, and not those of the integration bridge, which each workload changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable

from ..common.errors import ProgramError
from ..common.processes import subprocesses
from ..common.serialization import digest
from ..ovsdb.protocol.client import Client, OvsdbError
from .switch import Switch

# Verbs that read; `parse-flows` reads nothing but its input.
_READS, _COMPUTES = frozenset({"dump-flows", "dump-ports-desc", "ofproto/list", "fdb/show"}), "parse-flows"


class SwitchTrace:
    """Runs programs for a `Switch` and notes what they read; `note_ports` has what it read of the database."""

    def __init__(self, run: subprocesses.Run = subprocesses.run) -> None:
        self._run = run
        self._programs: list | None = []
        self._ports: dict | None = None

    def run(self, argv: list[str], text: str = "") -> str:
        """Run a program and return its output."""
        output = self._run(argv, text)
        if not _reads(argv):
            self._programs = None
        elif self._programs is not None and _COMPUTES not in argv:
            self._programs.append([argv, _digest(argv, output)])
        return output

    def note_ports(self, switch: Switch, bridges: Iterable[str]) -> None:
        """Note the ports of the compared bridges as the switch read them last."""
        wanted = sorted(bridges)
        self._ports = {"bridges": wanted, "digest": _digest_of_ports(switch.last_ports, wanted)}

    def read(self) -> dict | None:
        """Return what was read, from the database too; None when something was written."""
        if self._programs is None or self._ports is None:
            return None
        return {"ports": self._ports, "programs": self._programs}


def program_identity() -> str:
    """Return what changes when another version of Open vSwitch is installed, whose program may print otherwise."""
    path = shutil.which("ovs-ofctl", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    status = os.stat(path) if path else None
    return f"{status.st_ino} {status.st_mtime_ns} {status.st_size}" if status else ""


def replies_equal(remote: str, read: dict, timeout: float, run: subprocesses.Run = subprocesses.run) -> bool:
    """Whether the database and ovs-vswitchd reply as they did according to `SwitchTrace.read`."""
    if not all(_reads(argv) for argv, _digest_then in read["programs"]):
        return False
    ports = read["ports"]
    try:
        with Client(remote, timeout, read_only=True) as client:
            if _digest_of_ports(Switch(client).ports(), ports["bridges"]) != ports["digest"]:
                return False
        return all(_digest(argv, run(argv, "")) == then for argv, then in read["programs"])
    except (ProgramError, OvsdbError):
        return False


def _digest_of_ports(ports: dict[str, dict[str, str]], bridges: list[str]) -> str:
    return digest([ports.get(bridge) for bridge in bridges])


def _reads(argv: list[str]) -> bool:
    return argv[0] in ("ovs-ofctl", "ovs-appctl") and len({_COMPUTES, *_READS}.intersection(argv)) == 1


def _digest(argv: list[str], output: str) -> str:
    if "fdb/show" in argv:
        # Other entries were learned from packets, and have an age.
        output = "\n".join(line for line in output.splitlines() if line.endswith("static"))
    return hashlib.sha256(output.encode()).hexdigest()[:32]
