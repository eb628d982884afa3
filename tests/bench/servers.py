# SPDX-License-Identifier: Apache-2.0
"""Real servers in a temporary directory for the time of a `with` block."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.live.conftest import Server, Toolbox, make_toolbox, start, stop, wait_for

from . import ROOT

NORTHBOUND, SOUTHBOUND, OPEN_VSWITCH, STATE = "OVN_Northbound", "OVN_Southbound", "Open_vSwitch", "Heddle"
# What hosts have (`roles/host`).
ALLOCATOR, THREADS = "libjemalloc.so.2", "--n-threads=2"
STATE_SCHEMA = ROOT / "roles" / "state" / "files" / "heddle.ovsschema"


@contextlib.contextmanager
def served(*databases: str, allocator: str = "") -> Iterator[list[Server]]:
    """Run one ovsdb-server per database; a name that occurs twice gets two. `allocator`: as in `translating`."""
    tools = make_toolbox()
    with tempfile.TemporaryDirectory(prefix="heddle-") as name, contextlib.ExitStack() as stack:
        servers = []
        for number, database in enumerate(databases):
            folder = Path(name) / str(number)
            folder.mkdir()
            schema = STATE_SCHEMA if database == STATE else tools.schema(database)
            server = Server(tools, folder, database, schema, **preloaded(tools, allocator))
            stack.callback(stop, server.process)
            servers.append(server)
        yield servers


@contextlib.contextmanager
def translating(
    northbound: Server, southbound: Server, threads: str = THREADS, *, allocator: str = ALLOCATOR
) -> Iterator[int]:
    """Run ovn-northd between two databases; the value is its process id.

    `allocator` is a library, "" the C library; `threads` an option of ovn-northd.
    """
    tools, remotes = northbound.tools, (f"--ovnnb-db={northbound.remote}", f"--ovnsb-db={southbound.remote}")
    environment = preloaded(tools, allocator)
    process = start(tools, northbound.folder, "northd", "ovn-northd", *remotes, threads, environment=environment)
    try:
        wait_for(lambda: northbound.rows("NB_Global") and southbound.rows("SB_Global"), "ovn-northd", process)
        yield process.pid
    finally:
        stop(process)


def preloaded(tools: Toolbox, library: str) -> dict[str, str]:
    """Return the environment in which a program has its malloc(3) from a library, "" for the C library."""
    return {"LD_PRELOAD": tools.library(library)} if library else {}


def processor_seconds(process: int) -> float:
    """Return how much processor time a process has used, all its threads together (proc(5), stat)."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(process: int) -> float:
    """Return the largest resident size that a process has had."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
